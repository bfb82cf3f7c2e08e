//! How often a run that is still recorded is read again.

use std::time::Duration;

/// The pause after a piece of work that is repeated while a run is recorded. The pause grows with
/// the cost of the work, so that a large run is read less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    least: Duration,
    factor: u32,
}

impl Pace {
    /// The pause between two refreshes of what a person watches on a screen.
    pub const WATCHED: Self = Self::new(Duration::from_secs(1), 10);

    /// A pause that is at least `least`, and at least `factor` times as long as the work took.
    pub const fn new(least: Duration, factor: u32) -> Self {
        Self { least, factor }
    }

    /// The pause after work that took `cost`.
    #[must_use]
    pub fn after(self, cost: Duration) -> Duration {
        self.least.max(cost.saturating_mul(self.factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_work_is_repeated_less_often() {
        let pace = Pace::new(Duration::from_secs(1), 10);
        assert_eq!(pace.after(Duration::ZERO), Duration::from_secs(1));
        assert_eq!(pace.after(Duration::from_secs(3)), Duration::from_secs(30));
        assert_eq!(pace.after(Duration::MAX), Duration::MAX);
    }
}
