//! Locks a mutex also after a thread has panicked while it held the lock. The recorder goes on then,
//! because it must not fail in the watched program.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
