//! Finds which memory the CUDA driver allocates for the watched process, and which library asked
//! for it.
//!
//! CUPTI, NVIDIA's library for profilers, calls a function of the recorder on the thread that
//! allocates. The caller is the first library on the allocating thread's stack that is neither the
//! driver nor the CUDA runtime; a thread of the recorder finds the line of Python by reading the
//! frames of the allocating thread while that thread waits. This attribution of driver memory to
//! libraries and lines is off unless the user asks for it.
//!
//! CUPTI has room for one subscriber in a process, so [`stop`] is called before a profiler of the
//! program starts.

mod caller;
mod contexts;
mod cupti;
mod holdings;
mod questions;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::contexts::{NewContexts, wait_for_contexts};
pub use self::holdings::{Held, Kind, Site};
pub use self::questions::Question;

/// Whether the driver's allocations are attributed to their callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The user did not ask for the attribution of driver memory.
    Off,
    /// The attribution of driver memory runs and has seen every allocation since its start.
    On,
    /// The attribution of driver memory has ended for the given reason; the memory that was held at
    /// its end is still known.
    Ended(String),
}

/// Locks a mutex also after a thread has panicked while it held the lock, because the driver's
/// callbacks must not fail in the watched program.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static STATE: Mutex<State> = Mutex::new(State::Off);

/// Whether the driver's allocations are attributed to their callers at this moment.
pub fn state() -> State {
    lock(&STATE).clone()
}

/// Starts to attribute the allocations of the CUDA driver to the code that requests them, or returns
/// the reason why it cannot. A CUPTI library that the process has already loaded is used; otherwise
/// `libraries` are tried in order.
pub fn start(libraries: &[PathBuf]) -> Result<(), String> {
    if state() == State::On {
        return Ok(());
    }
    cupti::subscribe(libraries)?;
    *lock(&STATE) = State::On;
    Ok(())
}

/// Ends the attribution of driver memory and releases CUPTI; allocations that are in use at this
/// moment stay known, and later allocations are not followed.
pub fn stop(reason: &str) {
    if state() == State::On {
        *lock(&STATE) = State::Ended(reason.to_owned());
        cupti::unsubscribe();
    }
}

/// Memory that was allocated through the driver and is in use, summed by device, kind, library and
/// line, most bytes first.
pub fn held() -> Vec<Held> {
    holdings::all().summed()
}

/// The number of driver allocations that were not followed because too many were in use already.
pub fn missed() -> u64 {
    holdings::all().missed()
}

/// Waits until a thread that allocates through the driver asks which line of Python it executes;
/// `None` when no thread asks within `patience`.
pub fn next_question(patience: Duration) -> Option<Question> {
    questions::DESK.next(patience)
}

/// Gives a waiting thread the line of Python that it executes; `None` means that the line is not
/// known.
pub fn answer(question: Question, site: Option<Site>) {
    questions::DESK.answer(question, site);
}
