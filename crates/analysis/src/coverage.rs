//! How much of a run was recorded: samples, the time between them, and what is missing.

use hashbrown::HashMap;

use crate::columns::{EventRef, Origin};
use crate::load::LoadedSession;

/// A sample this many intervals after the one before is late.
const LATE_INTERVALS: i64 = 2;
/// A silence of this many intervals is a gap in the record.
const GAP_INTERVALS: i64 = 10;

/// What was recorded of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankCoverage {
    /// The rank.
    pub rank: i64,
    /// The machine of its first sample.
    pub host: String,
    /// Sessions with samples.
    pub sessions: usize,
    /// Samples.
    pub samples: usize,
    /// When the first sample was taken.
    pub first_ns: i64,
    /// When the last sample was taken.
    pub last_ns: i64,
    /// The median time between samples; unknown with one sample.
    pub interval_ns: Option<i64>,
    /// Samples that came more than two intervals after the one before.
    pub late_samples: usize,
    /// Silences of more than ten intervals.
    pub gaps: usize,
    /// The longest of them.
    pub longest_gap_ns: i64,
    /// The most bytes allocated.
    pub peak_allocated_bytes: Option<i64>,
    /// The most bytes reserved.
    pub peak_reserved_bytes: Option<i64>,
    /// The most bytes used on the device.
    pub peak_used_bytes: Option<i64>,
    /// Bytes used on the device by the last sample.
    pub last_used_bytes: Option<i64>,
    /// The size of the device.
    pub device_total_bytes: Option<i64>,
}

/// What was recorded of each rank, by rank.
pub fn by_rank(sessions: &[&LoadedSession]) -> Vec<RankCoverage> {
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut ranks: Vec<(i64, RankSamples)> = Vec::new();
    for session in sessions {
        let mut last: Option<(*const Origin, usize)> = None;
        let mut seen: Vec<usize> = Vec::new();
        for event in session.events.iter() {
            if event.event_type() != b"sample" {
                continue;
            }
            let origin = event.origin();
            let address = std::ptr::from_ref(origin);
            // Samples of one origin come in stretches: look the rank up once for each.
            let place = match last {
                Some((before, place)) if before == address => place,
                _ => *places.entry(origin.rank).or_insert_with(|| {
                    ranks.push((origin.rank, RankSamples::default()));
                    ranks.len() - 1
                }),
            };
            let of_rank = &mut ranks[place].1;
            if last.is_none_or(|(before, _)| before != address) && !seen.contains(&place) {
                seen.push(place);
                of_rank.begin_session(&origin.host.to_str_lossy(), session.thinned_until_ns);
            }
            last = Some((address, place));
            of_rank.add(event);
        }
    }
    let mut coverage: Vec<RankCoverage> = ranks
        .into_iter()
        .filter_map(|(rank, samples)| samples.coverage(rank))
        .collect();
    coverage.sort_by_key(|one| one.rank);
    coverage
}

/// The samples of a rank on their way to its coverage.
#[derive(Default)]
struct RankSamples {
    host: String,
    sessions: usize,
    samples: usize,
    span: Option<(i64, i64)>,
    previous_ns: Option<i64>,
    /// Times between neighbours within a session, in order. Samples that were thinned are far
    /// apart on purpose and do not count.
    steps_ns: Vec<i64>,
    thinned_until_ns: Option<i64>,
    peaks: [Option<i64>; 3],
    last_used: Option<i64>,
    total: Option<i64>,
}

impl RankSamples {
    fn begin_session(&mut self, host: &str, thinned_until_ns: Option<i64>) {
        if self.sessions == 0 {
            host.clone_into(&mut self.host);
        }
        self.sessions += 1;
        self.previous_ns = None;
        self.thinned_until_ns = thinned_until_ns;
    }

    fn add(&mut self, event: EventRef<'_>) {
        let at_ns = event.timestamp_ns();
        self.samples += 1;
        let (first, last) = self.span.unwrap_or((at_ns, at_ns));
        self.span = Some((first.min(at_ns), last.max(at_ns)));
        let is_thinned = |at_ns: i64| self.thinned_until_ns.is_some_and(|until| at_ns <= until);
        if let Some(previous) = self.previous_ns.filter(|previous| !is_thinned(*previous)) {
            self.steps_ns.push(at_ns.saturating_sub(previous));
        }
        self.previous_ns = Some(at_ns);
        let values = [
            event.allocated_bytes(),
            event.reserved_bytes(),
            event.used_bytes(),
        ];
        for (peak, value) in self.peaks.iter_mut().zip(values) {
            *peak = (*peak).max(value);
        }
        if at_ns >= last {
            self.last_used = event.used_bytes();
        }
        self.total = event.total_bytes().or(self.total);
    }

    fn coverage(mut self, rank: i64) -> Option<RankCoverage> {
        let (first_ns, last_ns) = self.span?;
        let interval_ns = self.median_step();
        let beyond = |times: i64| {
            let limit = interval_ns.map(|interval| interval.saturating_mul(times));
            self.steps_ns
                .iter()
                .copied()
                .filter(move |step| limit.is_some_and(|limit| limit > 0 && *step > limit))
        };
        Some(RankCoverage {
            rank,
            late_samples: beyond(LATE_INTERVALS).count(),
            gaps: beyond(GAP_INTERVALS).count(),
            longest_gap_ns: beyond(GAP_INTERVALS).max().unwrap_or(0),
            sessions: self.sessions,
            samples: self.samples,
            first_ns,
            last_ns,
            interval_ns,
            peak_allocated_bytes: self.peaks[0],
            peak_reserved_bytes: self.peaks[1],
            peak_used_bytes: self.peaks[2],
            last_used_bytes: self.last_used,
            device_total_bytes: self.total,
            host: self.host,
        })
    }

    fn median_step(&mut self) -> Option<i64> {
        if self.steps_ns.is_empty() {
            return None;
        }
        let middle = self.steps_ns.len() / 2;
        Some(*self.steps_ns.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Events;
    use stormlog_format::{Counters, Event, Map, SessionStatus, SessionSummary, Version};

    const SECOND: i64 = 1_000_000_000;

    fn sample(seconds: i64) -> Event {
        Event {
            version: Version::V3,
            session_id: "s".into(),
            timestamp_ns: seconds * SECOND,
            event_type: "sample".into(),
            collector: "c".into(),
            sampling_interval_ms: 1000,
            pid: 1,
            host: "h".into(),
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            device_id: 0,
            counters: Counters::default(),
            context: None,
            metadata: Map::new(),
        }
    }

    /// A session that is sparse until 10,000 s, then has a sample every second but for a gap.
    fn session(thinned_until_ns: Option<i64>) -> LoadedSession {
        let sparse = (0..100).map(|number| number * 100);
        let complete = (10_000..10_200).filter(|second| !(10_050..10_090).contains(second));
        let events: Vec<Event> = sparse.chain(complete).map(sample).collect();
        LoadedSession {
            summary: SessionSummary {
                session_id: "s".into(),
                status: SessionStatus::Completed,
                started_at_ns: 0,
                ended_at_ns: None,
                host: "h".into(),
                pid: 1,
                job_id: None,
                rank: 0,
                local_rank: 0,
                world_size: 1,
                source: "test".into(),
                recorder: None,
            },
            events: Events::from_events(&events),
            sources: Vec::new(),
            damage: Vec::new(),
            thinned_until_ns,
        }
    }

    #[test]
    fn thinned_samples_are_no_gap() {
        let thinned = session(Some(9_999 * SECOND));
        let [coverage] = &by_rank(&[&thinned])[..] else {
            panic!("one rank");
        };
        assert_eq!((coverage.gaps, coverage.late_samples), (1, 1));
        assert_eq!(coverage.longest_gap_ns, 41 * SECOND);
        assert_eq!(coverage.interval_ns, Some(SECOND));
        assert_eq!(coverage.samples, 260);
        let complete = session(None);
        assert_eq!(by_rank(&[&complete])[0].gaps, 101);
    }
}
