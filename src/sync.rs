//! Locks a mutex, also when a holder has panicked.
//!
//! A panic in a tool is caught and becomes the call's answer; it must not end every later
//! call that shares a lock with it. What our locks guard is whole after each statement, so a
//! holder that panicked leaves nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
