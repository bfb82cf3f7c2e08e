//! Finds the line of Python at which a thread allocates through the driver.
//!
//! The allocating thread cannot ask the interpreter itself: it has usually released the
//! interpreter's lock, and acquiring that lock again while it holds a lock of a library may
//! deadlock. The allocating thread asks a thread of the recorder for its line of Python and waits a
//! moment, during which its stack frames do not change. When threads have waited too long in total
//! for their lines of Python, no more questions are asked for a while.

use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Site;
use crate::lock;

/// The longest time that an allocating thread waits for its line of Python, which a thread of the
/// recorder looks up.
const PATIENCE: Duration = Duration::from_millis(3);

/// The total time that threads may wait for their lines of Python within one `PERIOD`.
const BUDGET: Duration = Duration::from_millis(150);
const PERIOD: Duration = Duration::from_mins(1);

/// After this number of questions in a row without an answer, no thread asks for its line of Python
/// until the period ends. Answers fail to come when the program holds the interpreter's lock while
/// it allocates, because the thread that answers needs this lock.
const MOST_UNANSWERED: u32 = 8;

/// A question of an allocating thread: which line of Python does it execute? The thread waits for
/// the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The number of the question. An answer with the number of an earlier question comes too late
    /// and is dropped.
    pub number: u64,
    /// The number of the thread, as Python's `threading.get_ident` returns it.
    pub thread: u64,
}

#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<DeskState>,
    asked: Condvar,
    answered: Condvar,
}

#[derive(Default)]
struct DeskState {
    is_staffed: bool,
    last: u64,
    open: Option<Question>,
    answer: Option<Answer>,
    spent: Duration,
    unanswered: u32,
    period: Option<Instant>,
}

/// The line of Python that a thread executes; `None` where no stack frame is the user's code.
struct Answer(Option<Site>);

pub(super) static DESK: LazyLock<Desk> = LazyLock::new(Desk::default);

impl Desk {
    /// The line of Python that a thread executes, if the answer comes in time.
    pub(super) fn ask(&self, thread: u64) -> Option<Site> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        if state.period.is_none_or(|begun| now - begun >= PERIOD) {
            (state.period, state.spent, state.unanswered) = (Some(now), Duration::ZERO, 0);
        }
        let may_ask = state.is_staffed
            && state.open.is_none()
            && state.spent < BUDGET
            && state.unanswered < MOST_UNANSWERED;
        if !may_ask {
            return None;
        }
        state.last += 1;
        let question = Question {
            number: state.last,
            thread,
        };
        (state.open, state.answer) = (Some(question), None);
        self.asked.notify_one();
        let waits = |state: &mut DeskState| state.answer.is_none();
        let waited = self.answered.wait_timeout_while(state, PATIENCE, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.open = None;
        state.spent += now.elapsed();
        let answer = state.answer.take();
        state.unanswered = answer.as_ref().map_or(state.unanswered + 1, |_| 0);
        answer.and_then(|answer| answer.0)
    }

    /// Waits until an allocating thread asks which line of Python it executes, and returns the
    /// question; `None` when none asks within `patience`.
    pub(super) fn next(&self, patience: Duration) -> Option<Question> {
        let mut state = lock(&self.state);
        state.is_staffed = true;
        let waits = |state: &mut DeskState| state.open.is_none() || state.answer.is_some();
        let waited = self.asked.wait_timeout_while(state, patience, waits);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.open.filter(|_| state.answer.is_none())
    }

    /// Passes the line of Python to the waiting thread, unless that thread no longer waits.
    pub(super) fn answer(&self, question: Question, site: Option<Site>) {
        let mut state = lock(&self.state);
        if state.open == Some(question) {
            state.answer = Some(Answer(site));
            self.answered.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    fn site() -> Site {
        Site {
            file: "train.py".to_owned(),
            line: 8,
            function: "main".to_owned(),
        }
    }

    #[test]
    fn no_question_is_asked_before_a_thread_listens() {
        assert_eq!(Desk::default().ask(1), None);
        assert_eq!(lock(&Desk::default().state).last, 0);
    }

    #[test]
    fn a_thread_gets_the_answer_to_its_question() {
        let desk = Desk::default();
        assert_eq!(desk.next(Duration::ZERO), None);
        let is_over = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(question) = desk.next(Duration::from_millis(1)) {
                        assert_eq!(question.thread, 7);
                        desk.answer(question, Some(site()));
                    }
                }
            });
            let answer = (0..MOST_UNANSWERED).find_map(|_| desk.ask(7));
            is_over.store(true, Ordering::Relaxed);
            answer
        });
        // On a busy machine every answer may come too late, so the test also passes without an
        // answer.
        assert!(answer.is_none_or(|answer| answer == site()));
    }

    #[test]
    fn an_answer_that_comes_too_late_is_dropped() {
        let desk = Desk::default();
        desk.next(Duration::ZERO);
        assert_eq!(desk.ask(7), None);
        let late = Question {
            number: 1,
            thread: 7,
        };
        desk.answer(late, Some(site()));
        assert_eq!(desk.ask(7), None);
    }

    #[test]
    fn a_program_that_holds_the_interpreter_is_not_asked_for_long() {
        let desk = Desk::default();
        desk.next(Duration::ZERO);
        for _ in 0..100 {
            assert_eq!(desk.ask(7), None);
        }
        assert!(lock(&desk.state).last <= u64::from(MOST_UNANSWERED));
    }
}
