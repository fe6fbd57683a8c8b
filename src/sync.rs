//! Locks a mutex even when a holder has panicked.
//!
//! A tool's panic is caught and becomes the call's answer. It must not make every later call
//! fail that shares a lock with it. The state behind the server's locks is consistent after
//! each statement, so a holder that panicked has left nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
