//! How often a run that goes on is looked at again.

use std::time::{Duration, Instant};

/// Nothing is looked at more often.
const LEAST: Duration = Duration::from_secs(1);
/// Looking takes at most this part of the time, so that a large run is followed at a small cost.
const SHARE: u32 = 10;

/// When to look again.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
}

impl Pace {
    /// Looks again after a look that began then and has just ended.
    pub(crate) fn after(begin: Instant) -> Self {
        let now = Instant::now();
        let cost = now.saturating_duration_since(begin);
        Self {
            next: now + LEAST.max(cost.saturating_mul(SHARE)),
        }
    }

    /// How long to wait from now on.
    pub(crate) fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether it is time.
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
