//! Decides at which training steps the watcher, a Python function, inspects the program's memory.
//!
//! In a program without a leak, this decision costs one atomic read per step, because the watcher
//! is not called before the level of memory rises.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use super::rising::{Rise, Rising};
use crate::mutex::lock;
use stormlog_format::signed;

/// Special values of `attended`: the watcher is called at no step, or at the next step of any
/// optimizer. Any other value is the number of the optimizer at whose steps the watcher is called.
const NONE: i64 = -1;
const ANY: i64 = -2;

/// Detects a rising level of memory at the ends of steps. The allocator is read at most ten times a
/// second there, so a block of five readings covers about half a second or more. In a program
/// without a leak, the level of memory is the same at the end of every step.
pub(super) fn level_at_steps() -> Rising {
    Rising::new(5, 6)
}

/// Detects a rising level of memory from readings at any time. A block of eight readings covers
/// about a second. The lowest readings of the blocks are compared, because only the lowest reading
/// shows what stays allocated.
pub(super) fn level_anywhere() -> Rising {
    Rising::new(8, 6)
}

/// Decides at which training steps the watcher, a Python function that inspects the program's
/// memory, is called.
#[derive(Debug)]
pub struct Attention {
    attended: AtomicI64,
    rise: Mutex<Option<Rise>>,
}

/// A step at which the watcher is called. After the call, this value is passed to
/// [`Attention::answer`], together with the watcher's answer: whether it wants to be called at the
/// next step too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attended {
    before: i64,
    own: i64,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            attended: AtomicI64::new(NONE),
            rise: Mutex::default(),
        }
    }
}

impl Attention {
    /// Stops calling the watcher, for example because it is replaced. The watcher is called again
    /// when memory rises or a call is requested.
    pub fn end(&self) {
        self.attended.store(NONE, Ordering::Relaxed);
    }

    /// Requests a call of the watcher at the next step, even if the level of memory does not rise.
    pub fn attend(&self) {
        self.attended.store(ANY, Ordering::Relaxed);
    }

    /// Decides whether the watcher is called at this step of an optimizer; `rise` is set if memory
    /// keeps rising at the steps of this optimizer. `None` when the watcher is not called.
    pub fn at_step(&self, optimizer: usize, rise: Option<Rise>) -> Option<Attended> {
        let before = self.attended.load(Ordering::Relaxed);
        let own = signed(optimizer);
        let is_first = before == NONE && rise.is_some();
        (is_first || before == ANY || before == own).then_some(Attended { before, own })
    }

    /// Notes whether the watcher wants to be called at the next step of the same optimizer. A call
    /// that was requested while the watcher ran stays requested.
    pub fn answer(&self, attended: Attended, goes_on: bool) {
        let next = if goes_on { attended.own } else { NONE };
        let _ = self.attended.compare_exchange(
            attended.before,
            next,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Notes that the memory of a program without training steps keeps rising, for
    /// [`take_rise`](Self::take_rise).
    pub fn risen(&self, rise: Rise) {
        *lock(&self.rise) = Some(rise);
    }

    /// The rate of the last noted rise of memory, in bytes per second; each rise is returned once.
    pub fn take_rise(&self) -> Option<f64> {
        let rise = lock(&self.rise).take()?;
        let bytes = rise.bytes as f64;
        Some(bytes / rise.over.as_secs_f64().max(0.001))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rise() -> Rise {
        Rise {
            bytes: 2_000,
            over: Duration::from_secs(2),
        }
    }

    #[test]
    fn a_rise_calls_the_watcher_at_steps_of_its_optimizer_until_it_stops() {
        let attention = Attention::default();
        assert_eq!(attention.at_step(0, None), None);
        let first = attention.at_step(1, Some(rise())).unwrap();
        attention.answer(first, true);
        assert_eq!(attention.at_step(0, Some(rise())), None);
        let next = attention.at_step(1, None).unwrap();
        attention.answer(next, false);
        assert_eq!(attention.at_step(1, None), None);
    }

    #[test]
    fn a_request_that_comes_during_the_call_stays() {
        let attention = Attention::default();
        let first = attention.at_step(0, Some(rise())).unwrap();
        attention.attend();
        attention.answer(first, false);
        assert!(attention.at_step(5, None).is_some());
        attention.end();
        assert_eq!(attention.at_step(5, None), None);
    }

    #[test]
    fn a_rise_without_steps_is_given_once() {
        let attention = Attention::default();
        assert_eq!(attention.take_rise(), None);
        attention.risen(rise());
        assert_eq!(attention.take_rise(), Some(1_000.0));
        assert_eq!(attention.take_rise(), None);
    }
}
