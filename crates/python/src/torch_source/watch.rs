//! Who is called at the ends of steps while memory is looked at closely.
//!
//! A clean loop pays two atomic reads a step for it: no function is called before a level rises.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use stormlog_capture::record::rising::{Rise, Rising};

use crate::sources::message;

/// The optimizers at whose steps the watcher is called: none, any, or one by its number.
const NONE: i64 = -1;
const ANY: i64 = -2;

/// The level at ends of steps: blocks of half a second at ten readings a second. A clean loop has
/// one single level there.
pub(super) fn level_at_steps() -> Rising {
    Rising::new(5, 6)
}

/// The level at any time, of which only the floor means something: blocks of about a second.
pub(super) fn level_anywhere() -> Rising {
    Rising::new(8, 6)
}

pub(super) struct Watch {
    attended: AtomicI64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watcher: Option<Py<PyAny>>,
    error: Option<String>,
    rise: Option<Rise>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            attended: AtomicI64::new(NONE),
            state: Mutex::default(),
        }
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, watcher: Option<Py<PyAny>>) {
        self.attended.store(NONE, Ordering::Relaxed);
        // Dropped without the lock: the end of a Python object may run anything.
        let former = std::mem::replace(&mut self.lock().watcher, watcher);
        drop(former);
    }

    pub(super) fn attend(&self) {
        self.attended.store(ANY, Ordering::Relaxed);
    }

    pub(super) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// A rise of the level of a program without steps.
    pub(super) fn risen(&self, rise: Rise) {
        self.lock().rise = Some(rise);
    }

    pub(super) fn take_rise(&self) -> Option<f64> {
        let rise = self.lock().rise.take()?;
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let bytes = rise.bytes as f64;
        Some(bytes / rise.over.as_secs_f64().max(0.001))
    }

    /// Calls the watcher where it is wanted.
    pub(super) fn at_step(&self, py: Python<'_>, step: u64, optimizer: usize, rise: Option<Rise>) {
        let attended = self.attended.load(Ordering::Relaxed);
        let own = i64::try_from(optimizer).unwrap_or(i64::MAX);
        let is_first = attended == NONE && rise.is_some();
        if !is_first && attended != ANY && attended != own {
            return;
        }
        let watcher = self.lock().watcher.as_ref().map(|one| one.clone_ref(py));
        let Some(watcher) = watcher else {
            self.attended.store(NONE, Ordering::Relaxed);
            return;
        };
        let bytes = rise.map_or(0, |rise| rise.bytes);
        let answer = watcher.call1(py, (step, bytes));
        let goes_on = match answer.and_then(|answer| answer.is_truthy(py)) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                self.set(None);
                self.lock().error = Some(message(py, &error));
                false
            }
        };
        let next = if goes_on { own } else { NONE };
        // A request that came meanwhile stays.
        let _ =
            self.attended
                .compare_exchange(attended, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}
