//! The start of a run, from which findings, pictures, pages and the terminal interface count all
//! times.

use std::collections::BTreeMap;

use super::run::Run;
use super::track::{Track, float};

/// The start of a run: its first sample of any resource, also of host memory. The clocks of ranks on
/// different hosts differ, so the start has another time on the clock of each rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeZero {
    shared_ns: Option<i64>,
    corrections: BTreeMap<u32, i64>,
}

impl TimeZero {
    /// Finds the start of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let corrections = run.corrections_by_rank_ns();
        let first = |track: &Track| {
            let correction = corrections.get(&track.rank).copied().unwrap_or(0);
            Some(track.span_ns()?.0.saturating_add(correction))
        };
        Self {
            shared_ns: run.tracks.iter().filter_map(first).min(),
            corrections,
        }
    }

    /// The start on the shared clock of all ranks, the clock of the lowest rank; `None` for a run
    /// without samples.
    #[must_use]
    pub fn shared_ns(&self) -> Option<i64> {
        self.shared_ns
    }

    /// The start on the clock of a rank; `None` for a run without samples.
    #[must_use]
    pub fn by_clock_of(&self, rank: u32) -> Option<i64> {
        let correction = self.corrections.get(&rank).copied().unwrap_or(0);
        Some(self.shared_ns?.saturating_sub(correction))
    }

    /// The nanoseconds from the start to a time on the clock of a rank. Without a rank, the time is
    /// on the shared clock. Zero for times before the start.
    #[must_use]
    pub fn since_ns(&self, rank: Option<u32>, at_ns: i64) -> i64 {
        let start = match rank {
            Some(rank) => self.by_clock_of(rank),
            None => self.shared_ns,
        };
        start.map_or(0, |start| at_ns.saturating_sub(start).max(0))
    }

    /// [`Self::since_ns`] in seconds.
    #[must_use]
    pub fn since_s(&self, rank: Option<u32>, at_ns: i64) -> f64 {
        float(self.since_ns(rank, at_ns)) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(rank: u32, device_id: i64, first_s: i64) -> Track {
        Track {
            rank,
            device_id,
            host: "h".into(),
            t_ns: (first_s..first_s + 5).map(|s| s * 1_000_000_000).collect(),
            ..Track::default()
        }
    }

    #[test]
    fn times_count_from_the_first_sample_of_any_resource() {
        let run = Run {
            tracks: vec![track(0, 0, 17), track(0, -1, 10), track(1, 0, 20)],
            ..Run::default()
        };
        let zero = TimeZero::of(&run);
        assert_eq!(zero.shared_ns(), Some(10_000_000_000));
        assert_eq!(zero.by_clock_of(1), Some(10_000_000_000));
        assert!((zero.since_s(Some(1), 24_000_000_000) - 14.0).abs() < 1e-9);
        assert_eq!(zero.since_ns(None, 1), 0);
        assert_eq!(TimeZero::of(&Run::default()).shared_ns(), None);
    }
}
