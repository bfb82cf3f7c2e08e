//! The sampling thread: it samples at a fixed interval until it is stopped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::mutex::lock;
use crate::thread;

/// Whether the sampling thread continues after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    GoOn,
    Last,
}

/// The end of a session waits for a sample in progress, at most for the sampling interval plus this
/// time.
const GRACE: Duration = Duration::from_millis(80);

#[derive(Debug, Default)]
struct Signals {
    stop: bool,
    finished: bool,
}

#[derive(Debug, Default)]
struct Shared {
    signals: Mutex<Signals>,
    changed: Condvar,
}

/// The handle with which a sampling thread is stopped.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<Shared>,
    interval: Duration,
}

impl Sampler {
    /// Calls `beat`, which takes a sample, at once and then every `interval`. Samples that were
    /// missed because an earlier one took too long are not taken later. At least one sample is
    /// taken: if the sampler is stopped before its thread has started, the stop waits for the first
    /// sample.
    pub(crate) fn start(
        interval: Duration,
        mut beat: impl FnMut() -> Beat + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread_shared = shared.clone();
        thread::start("stormlog-sampler", move || {
            let mut next = Instant::now();
            while beat() == Beat::GoOn {
                next += interval;
                let now = Instant::now();
                if next < now {
                    next = now;
                }
                if thread_shared.wait_until(next) {
                    break;
                }
            }
            lock(&thread_shared.signals).finished = true;
            thread_shared.changed.notify_all();
        })?;
        Ok(Self { shared, interval })
    }

    /// Stops the sampler; the caller waits at most the interval plus a short grace time for a
    /// sample that hangs in a driver or waits for the interpreter.
    pub(crate) fn stop(self) {
        let mut signals = lock(&self.shared.signals);
        signals.stop = true;
        let changed = &self.shared.changed;
        changed.notify_all();
        let patience = self.interval + GRACE;
        let _ = changed.wait_timeout_while(signals, patience, |signals| !signals.finished);
    }
}

impl Shared {
    /// Waits until the given time or until the sampler is stopped; returns whether it was stopped.
    fn wait_until(&self, time: Instant) -> bool {
        let left = time.saturating_duration_since(Instant::now());
        let waits = |signals: &mut Signals| !signals.stop;
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.signals), left, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A time longer than any machine needs; a test that waits this long has failed.
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn beats_and_stops_at_once() {
        let interval = Duration::from_millis(5);
        let start = Instant::now();
        let (beats, heard) = channel();
        let sampler = Sampler::start(interval, move || {
            // The test's receiver no longer exists after the sampler is stopped, so the result of
            // sending is ignored.
            let _ = beats.send(());
            Beat::GoOn
        })
        .unwrap();
        for _ in 0..10 {
            heard.recv_timeout(LONG).unwrap();
        }
        assert!(start.elapsed() >= interval * 9, "beats are not made up for");
        sampler.stop();
        // The sampling thread has dropped its end of the channel, so the channel holds only the
        // last samples.
        let left = std::iter::from_fn(|| heard.recv_timeout(LONG).ok());
        assert!(left.take(1000).count() < 1000, "it beats on");
    }

    #[test]
    fn a_stop_right_after_the_start_leaves_one_beat() {
        for _ in 0..200 {
            let (beats, heard) = channel();
            let sampler = Sampler::start(LONG, move || {
                let _ = beats.send(());
                Beat::GoOn
            });
            sampler.unwrap().stop();
            assert_eq!(heard.try_iter().count(), 1);
        }
    }

    #[test]
    fn a_long_interval_and_a_hanging_beat_do_not_hold_up_the_stop() {
        let time_to_stop = || {
            let sampler = Sampler::start(LONG * 10, || Beat::GoOn).unwrap();
            let (hangs, is_hanging) = channel();
            let (go_on, until) = channel::<()>();
            let hanging = Sampler::start(Duration::from_millis(10), move || {
                let _ = hangs.send(());
                let _ = until.recv();
                Beat::Last
            })
            .unwrap();
            is_hanging.recv_timeout(LONG).unwrap();
            let start = Instant::now();
            sampler.stop();
            hanging.stop();
            drop(go_on);
            start.elapsed()
        };
        // The test takes the best of several attempts, because a busy machine delays some attempts,
        // but code that waits delays every attempt.
        let best = (0..5).map(|_| time_to_stop()).min().unwrap();
        assert!(best < Duration::from_millis(300), "{best:?}");
    }
}
