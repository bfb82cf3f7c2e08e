//! Decides how often a running job is analyzed again.

use std::time::{Duration, Instant};

/// The shortest time between two analyses of the same running job.
const LEAST: Duration = Duration::from_secs(1);
/// The pause after an analysis is at least ten times as long as the analysis took, so that a large
/// run is analyzed less often.
const SHARE: u32 = 10;

/// The time at which a running job is analyzed again.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
}

impl Pace {
    /// Schedules the next analysis after one that started at `begin` and has just ended.
    pub(crate) fn after(begin: Instant) -> Self {
        let now = Instant::now();
        let cost = now.saturating_duration_since(begin);
        Self {
            next: now + LEAST.max(cost.saturating_mul(SHARE)),
        }
    }

    /// How long to wait from now until the next analysis.
    pub(crate) fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether the next analysis is due.
    pub(crate) fn is_due(&self) -> bool {
        self.wait().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_small_part_of_the_time() {
        let now = Instant::now();
        let wait = Pace::after(now).wait();
        assert!(wait > LEAST / 2 && wait <= LEAST + LEAST / 2, "{wait:?}");
        let slow = now.checked_sub(Duration::from_secs(3)).unwrap();
        assert!(Pace::after(slow).wait() > Duration::from_secs(29));
        assert!(!Pace::after(now).is_due());
    }
}
