//! Holds and calls the watcher, a Python function that is called at the ends of steps while memory
//! rises.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::errors::message;

/// Holds the watcher, a Python function that is called at the ends of training steps while memory
/// rises, if one was set.
#[derive(Default)]
pub(super) struct Watcher(Mutex<State>);

#[derive(Default)]
struct State {
    function: Option<Py<PyAny>>,
    error: Option<String>,
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, function: Option<Py<PyAny>>) {
        // The former function is dropped after the lock is released, because dropping a Python
        // object may run any code.
        let former = std::mem::replace(&mut self.lock().function, function);
        drop(former);
    }

    pub(super) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// Calls the watcher; returns whether the watcher wants to be called again. If the watcher
    /// raises an exception, it is never called again.
    pub(super) fn call(&self, py: Python<'_>, step: u64, bytes: i64) -> bool {
        let function = self.lock().function.as_ref().map(|one| one.clone_ref(py));
        let Some(function) = function else {
            return false;
        };
        let answer = function.call1(py, (step, bytes));
        match answer.and_then(|answer| answer.is_truthy(py)) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                self.set(None);
                self.lock().error = Some(message(py, &error));
                false
            }
        }
    }
}
