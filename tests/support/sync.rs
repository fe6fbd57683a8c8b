//! Locks a mutex, also when a holder has panicked: one failed test must not fail the others
//! that share a server, and it has said why it failed.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
