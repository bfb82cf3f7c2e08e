//! Counts training steps, and keeps the allocator's counters at the ends of some of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::AllocatorReading;
use super::attention::level_at_steps;
use super::rising::{Rise, Rising};
use crate::mutex::lock;

/// The least time between two readings of the allocator at ends of steps of the same optimizer: one
/// reading costs about 25 µs, so ten readings a second cost nothing measurable. Training steps that
/// end between two readings of the allocator are only counted.
const STEP_PERIOD: Duration = Duration::from_millis(100);

/// The largest number of readings at ends of steps that wait for the sampling thread.
const MOST_WAITING: usize = 32;

/// The largest number of optimizers that get a number of their own; further optimizers share the
/// last number.
const MOST_OPTIMIZERS: usize = 8;

/// The training steps of a program, counted at each step of an optimizer on the training thread.
#[derive(Debug, Default)]
pub struct Steps {
    count: AtomicU64,
    readings: Mutex<Readings>,
}

#[derive(Debug, Default)]
struct Readings {
    optimizers: Vec<Optimizer>,
    waiting: Vec<StepReading>,
    last_read: Option<Instant>,
}

/// An optimizer, identified by its address, which no other object has while the optimizer lives.
#[derive(Debug)]
struct Optimizer {
    address: usize,
    last_read: Option<Instant>,
    level: Rising,
}

/// The allocator's counters at the end of a step.
#[derive(Clone, Debug)]
pub struct StepReading {
    /// The allocator's counters at the end of the step.
    pub allocator: AllocatorReading,
    /// The number of the step, from 1.
    pub step: u64,
    /// The number of the optimizer that took the step. Optimizers are numbered from 0, in the order
    /// of their first steps.
    pub optimizer: usize,
}

impl Steps {
    /// The number of training steps so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a training step; returns its number, the number of its optimizer, and whether the
    /// allocator should be read at its end.
    pub fn begin(&self, address: usize) -> (u64, usize, bool) {
        let step = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let now = Instant::now();
        let mut readings = lock(&self.readings);
        let known = readings
            .optimizers
            .iter()
            .position(|one| one.address == address);
        let index = known.unwrap_or_else(|| {
            if readings.optimizers.len() < MOST_OPTIMIZERS {
                readings.optimizers.push(Optimizer {
                    address,
                    last_read: None,
                    level: level_at_steps(),
                });
            }
            readings.optimizers.len() - 1
        });
        let optimizer = &mut readings.optimizers[index];
        let is_due = optimizer
            .last_read
            .is_none_or(|read| now.duration_since(read) >= STEP_PERIOD);
        if is_due {
            optimizer.last_read = Some(now);
        }
        (step, index, is_due)
    }

    /// Stores a reading from the end of a step for the sampling thread. Returns a rise if this
    /// reading shows that memory keeps rising at the steps of its optimizer.
    pub fn keep(&self, reading: StepReading) -> Option<Rise> {
        let now = Instant::now();
        let mut readings = lock(&self.readings);
        readings.last_read = Some(now);
        let level = reading.allocator.counters.allocator_allocated_bytes;
        let optimizer = readings.optimizers.get_mut(reading.optimizer);
        let rise = optimizer
            .zip(level)
            .and_then(|(one, level)| one.level.add(level, now));
        if readings.waiting.len() >= MOST_WAITING {
            readings.waiting.remove(0);
        }
        readings.waiting.push(reading);
        rise
    }

    /// Removes and returns the readings at ends of steps since the last call, oldest first.
    pub(super) fn take(&self) -> Vec<StepReading> {
        std::mem::take(&mut lock(&self.readings).waiting)
    }

    /// When the allocator's counters were last read at the end of a step.
    pub(super) fn last_read(&self) -> Option<Instant> {
        lock(&self.readings).last_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(step: u64, level: i64) -> StepReading {
        let mut allocator = AllocatorReading::unused();
        allocator.counters.allocator_allocated_bytes = Some(level);
        StepReading {
            allocator,
            step,
            optimizer: 0,
        }
    }

    #[test]
    fn each_optimizer_is_read_at_most_ten_times_a_second() {
        let steps = Steps::default();
        assert_eq!(steps.begin(0xa), (1, 0, true));
        assert_eq!(steps.begin(0xb), (2, 1, true));
        let due = (0..100).filter(|_| steps.begin(0xa).2).count();
        assert!(due <= 1, "{due} readings within a moment");
        assert_eq!(steps.count(), 102);
    }

    #[test]
    fn further_optimizers_share_the_last_number() {
        let steps = Steps::default();
        let numbers: Vec<usize> = (0..10).map(|address| steps.begin(address).1).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
    }

    #[test]
    fn the_newest_readings_wait_and_a_rising_level_is_reported() {
        let steps = Steps::default();
        steps.begin(0xa);
        let mut rises = 0;
        for step in 1..=100 {
            let level = i64::try_from(step).unwrap() << 20;
            rises += usize::from(steps.keep(reading(step, level)).is_some());
        }
        assert!(rises > 0);
        let waiting = steps.take();
        assert_eq!(waiting.len(), MOST_WAITING);
        assert_eq!(waiting.last().unwrap().step, 100);
        assert!(steps.take().is_empty());
    }
}
