//! What the CUDA driver allocates for the watched process, and for whom.
//!
//! CUPTI calls back on the thread that allocates. The caller is the first library outside of the
//! driver and the runtime on its stack; the line of Python comes from a thread of the recorder
//! that looks at the frames of the waiting thread. All of it is off unless the user asks for it.
//!
//! CUPTI has room for one subscriber in a process, so [`stop`] is called before a profiler of the
//! program starts.

mod caller;
mod contexts;
mod cupti;
mod holdings;
mod questions;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use self::contexts::{NewContexts, wait_for_contexts};
pub use self::holdings::{Held, Kind, Site};
pub use self::questions::Question;

/// How the attribution is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It was not asked for.
    Off,
    /// Every allocation since the start was seen.
    On,
    /// It ended; what was held then is still known.
    Ended(String),
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn set(state: State) {
    *STATE.lock().unwrap_or_else(PoisonError::into_inner) = state;
}

/// How the attribution is doing now.
pub fn state() -> State {
    STATE.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Attributes the driver's allocations from now on; the reason why it cannot. The libraries are
/// tried in order, after one that the process has loaded already.
pub fn start(libraries: &[PathBuf]) -> Result<(), String> {
    if state() == State::On {
        return Ok(());
    }
    cupti::subscribe(libraries)?;
    set(State::On);
    Ok(())
}

/// Gives CUPTI back. What is held is known as of now, and no longer followed.
pub fn stop(reason: &str) {
    if state() == State::On {
        set(State::Ended(reason.to_owned()));
        cupti::unsubscribe();
    }
}

/// What is held, by device, kind, library and line; the most bytes first.
pub fn held() -> Vec<Held> {
    holdings::all().summed()
}

/// Allocations that were not followed because too many were held.
pub fn missed() -> u64 {
    holdings::all().missed()
}

/// Waits for a thread that wants to know which line of Python it is at.
pub fn next_question(patience: Duration) -> Option<Question> {
    questions::DESK.next(patience)
}

/// Answers a question; a line that is not known is an answer too.
pub fn answer(question: Question, site: Option<Site>) {
    questions::DESK.answer(question, site);
}
