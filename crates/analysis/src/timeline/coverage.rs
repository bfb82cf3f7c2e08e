//! Computes how much of a run was recorded: samples, their intervals, sampling gaps and peaks.

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::run::Run;
use super::track::{Peaks, Resource, Track, devices_or_all};

/// How much was recorded of a rank, or of one resource of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankCoverage {
    /// The rank.
    pub rank: i64,
    /// The host of the rank's first sample.
    pub host: String,
    /// Number of sessions with samples.
    pub sessions: usize,
    /// Number of samples.
    pub samples: usize,
    /// When the first sample was taken.
    #[serde(rename = "first_timestamp_ns")]
    pub first_ns: i64,
    /// When the last sample was taken.
    #[serde(rename = "last_timestamp_ns")]
    pub last_ns: i64,
    /// The median time between samples of the track with the most samples; `None` with fewer than
    /// two samples.
    #[serde(rename = "median_interval_ns")]
    pub interval_ns: Option<i64>,
    /// Number of samples that came more than two sampling intervals after the previous one.
    pub late_samples: usize,
    /// Number of sampling gaps.
    pub gaps: usize,
    /// Duration of the longest sampling gap in nanoseconds.
    pub longest_gap_ns: i64,
    /// The highest values of the memory counters.
    #[serde(flatten)]
    pub peaks: Peaks,
    /// Bytes used on the device at the last sample.
    pub last_used_bytes: Option<i64>,
    /// The size of the device, or the host memory that the process may use.
    pub device_total_bytes: Option<i64>,
}

/// How much was recorded of one resource of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResourceCoverage {
    /// The process id.
    pub pid: i64,
    /// The measured resource.
    #[serde(flatten)]
    pub resource: Resource,
    /// How much was recorded of the resource, and on which rank.
    #[serde(flatten)]
    pub recorded: RankCoverage,
}

impl Run {
    /// How much was recorded of each rank, in order of the ranks. Only tracks of devices are
    /// counted or, for a rank without devices, the tracks of host memory.
    #[must_use]
    pub fn by_rank(&self) -> Vec<RankCoverage> {
        let mut ranks: BTreeMap<u32, Vec<&Track>> = BTreeMap::new();
        for track in self.tracks.iter().filter(|track| !track.t_ns.is_empty()) {
            ranks.entry(track.rank).or_default().push(track);
        }
        // The ranks are processed in parallel: finding the sampling gaps reads every sample, and a
        // run may have thousands of ranks.
        let ranks: Vec<Vec<&Track>> = ranks.into_values().collect();
        ranks
            .into_par_iter()
            .map(|tracks| coverage(&devices_or_all(tracks)))
            .collect()
    }

    /// How much was recorded of each resource of each process, in order of the ranks.
    #[must_use]
    pub fn by_resource(&self) -> Vec<ResourceCoverage> {
        let mut found: BTreeMap<(u32, &str, i64, Resource), Vec<&Track>> = BTreeMap::new();
        for track in self.tracks.iter().filter(|track| !track.t_ns.is_empty()) {
            let key = (track.rank, &*track.host, track.pid, track.resource());
            found.entry(key).or_default().push(track);
        }
        let of_resource = |((_, _, pid, resource), tracks): (_, Vec<&Track>)| ResourceCoverage {
            pid,
            resource,
            recorded: coverage(&tracks),
        };
        let found: Vec<_> = found.into_iter().collect();
        found.into_par_iter().map(of_resource).collect()
    }
}

/// The coverage of the given tracks of one rank, each of which has samples.
fn coverage(tracks: &[&Track]) -> RankCoverage {
    let mut all = RankCoverage {
        first_ns: i64::MAX,
        last_ns: i64::MIN,
        ..RankCoverage::default()
    };
    let (mut most_samples, mut sessions) = (0, Vec::new());
    for track in tracks {
        let Some((first, last)) = track.span_ns() else {
            continue;
        };
        let sampling = track.sampling();
        all.rank = i64::from(track.rank);
        if first < all.first_ns {
            all.host.clone_from(&track.host);
        }
        if last >= all.last_ns {
            let newest = (0..track.t_ns.len()).rev().find(|&i| track.t_ns[i] == last);
            all.last_used_bytes = newest.and_then(|i| track.used.get(i));
        }
        if track.t_ns.len() > most_samples {
            (most_samples, all.interval_ns) = (track.t_ns.len(), sampling.interval_ns);
        }
        let gaps = &sampling.gaps;
        let lengths = gaps.iter().map(|(from, to)| to.saturating_sub(*from));
        all.longest_gap_ns = lengths.max().unwrap_or(0).max(all.longest_gap_ns);
        all.first_ns = all.first_ns.min(first);
        all.last_ns = all.last_ns.max(last);
        all.samples += track.t_ns.len();
        all.late_samples += sampling.late;
        all.gaps += gaps.len();
        all.peaks = all.peaks.or_higher(track.peaks());
        all.device_total_bytes = track.limit_bytes().or(all.device_total_bytes);
        sessions.push(&track.session_id);
    }
    sessions.sort_unstable();
    sessions.dedup();
    all.sessions = sessions.len();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(device_id: i64, session: &str, times: std::ops::Range<i64>) -> Track {
        Track {
            device_id,
            pid: 7,
            session_id: session.into(),
            used: times.clone().map(Some).collect(),
            t_ns: times.collect(),
            ..Track::default()
        }
    }

    #[test]
    fn host_memory_does_not_count_for_a_rank_with_a_device() {
        let run = Run {
            tracks: vec![
                track(-1, "host", 0..400),
                track(0, "first", 10..20),
                track(0, "second", 30..50),
            ],
            ..Run::default()
        };
        let ranks = run.by_rank();
        assert_eq!(
            (ranks.len(), ranks[0].sessions, ranks[0].samples),
            (1, 2, 30)
        );
        assert_eq!((ranks[0].first_ns, ranks[0].last_ns), (10, 49));
        assert_eq!(
            (ranks[0].peaks.used, ranks[0].last_used_bytes),
            (Some(49), Some(49))
        );
        let resources = run.by_resource();
        let samples: Vec<usize> = resources.iter().map(|one| one.recorded.samples).collect();
        assert_eq!(samples, [400, 30]);
        assert_eq!(resources[0].resource, Resource::Host);
    }
}
