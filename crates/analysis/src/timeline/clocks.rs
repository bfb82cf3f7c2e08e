//! Aligns the clocks of ranks on different hosts.
//!
//! The ranks of a job load the model, evaluate and stop at about the same times. These common
//! events therefore show how far the clocks of the ranks differ: the end of the model load, marked
//! phases, and the first and last sample. Each common event may be recorded at a wrong time,
//! because a recorder may attach late or a rank may stop early, so the median of the clock
//! differences is used. Ranks of one host share a clock.

use std::collections::BTreeMap;

use stormlog_format::whole;

use super::run::Run;
use super::track::{Track, devices_or_all, float};
use crate::stats::median;

/// If the first sample of a track is below this share of its working level (its median memory use),
/// the recording includes the start of the program.
const FROM_THE_START: f64 = 0.1;
/// The model counts as loaded when this share of the track's working level is in use.
const LOADED: f64 = 0.9;

/// Selects the time of one event that all ranks have in common: a field of [`Marks`], such as
/// `start`.
type Pick = fn(&Marks) -> Option<f64>;

/// For each track, how far its clock is ahead of the median clock of all tracks, in seconds.
pub(crate) fn ahead(tracks: &[&Track]) -> Vec<f64> {
    let starts = tracks.iter().filter_map(|track| Some(track.span_ns()?.0));
    let Some(origin) = starts.min() else {
        return vec![0.0; tracks.len()];
    };
    let marks: Vec<Marks> = tracks
        .iter()
        .map(|track| Marks::of(track, origin))
        .collect();
    let common = |pick: Pick| middle(&marks.iter().filter_map(pick).collect::<Vec<_>>());
    let picks: [Pick; 4] = [|m| m.start, |m| m.loaded, |m| m.phases, |m| m.end];
    let centres = picks.map(common);
    let own: Vec<f64> = marks
        .iter()
        .map(|m| {
            let estimates = picks.iter().zip(centres);
            let estimates = estimates.filter_map(|(pick, centre)| Some(pick(m)? - centre?));
            median(&estimates.collect::<Vec<_>>())
        })
        .collect();
    per_host(tracks, &own)
}

impl Run {
    /// For each track, the nanoseconds to add to its times to convert them to the clock of the
    /// lowest rank. All ranks of one host share a clock.
    #[must_use]
    pub fn clock_corrections_ns(&self) -> Vec<i64> {
        let by_rank = self.corrections_by_rank_ns();
        let tracks = self.tracks.iter();
        tracks
            .map(|track| by_rank.get(&track.rank).copied().unwrap_or(0))
            .collect()
    }

    /// For each rank whose clock is known, the nanoseconds to add to its times to convert them to
    /// the clock of the lowest rank.
    pub(super) fn corrections_by_rank_ns(&self) -> BTreeMap<u32, i64> {
        // All ranks of one host share a clock, so nothing is estimated for a run on one host.
        let mut hosts = self.tracks.iter().map(|track| track.host.as_str());
        let first = hosts.next().unwrap_or_default();
        if !first.is_empty() && hosts.all(|host| host == first) {
            return BTreeMap::new();
        }
        let recorded = self.tracks.iter().filter(|track| !track.t_ns.is_empty());
        // Clock differences are estimated from device tracks if there are any, because the host
        // memory of a launcher (such as torchrun) does not change at the same times as that of its
        // ranks.
        let judged = devices_or_all(recorded.collect());
        let mut by_rank: BTreeMap<u32, f64> = BTreeMap::new();
        for (track, ahead) in judged.iter().zip(ahead(&judged)) {
            by_rank.entry(track.rank).or_insert(ahead);
        }
        let anchor = by_rank.values().next().copied().unwrap_or(0.0);
        let correction = |ahead: f64| whole(((anchor - ahead) * 1e9).round());
        by_rank
            .into_iter()
            .map(|(rank, ahead)| (rank, correction(ahead)))
            .collect()
    }
}

/// When a track reached the events that all ranks reach at about the same time; `None` when
/// unknown. The times are in seconds after the earliest sample of all tracks, by the clock of the
/// track's host.
struct Marks {
    start: Option<f64>,
    loaded: Option<f64>,
    phases: Option<f64>,
    end: Option<f64>,
}

impl Marks {
    fn of(track: &Track, origin_ns: i64) -> Self {
        let at = |ns: i64| float(ns.saturating_sub(origin_ns)) / 1e9;
        let Some((first, last)) = track.span_ns() else {
            return Self {
                start: None,
                loaded: None,
                phases: None,
                end: None,
            };
        };
        let known = |i: usize| {
            let level = track.allocated.get(i).or(track.used.get(i))?;
            Some((track.t_ns[i], float(level)))
        };
        let levels: Vec<(i64, f64)> = (0..track.t_ns.len()).filter_map(known).collect();
        let working = median(&levels.iter().map(|level| level.1).collect::<Vec<_>>());
        let from_the_start = levels
            .iter()
            .min_by_key(|level| level.0)
            .is_some_and(|level| level.1 < FROM_THE_START * working);
        let loaded = levels
            .iter()
            .filter(|level| level.1 >= LOADED * working)
            .map(|level| level.0)
            .min();
        let in_run: Vec<f64> = track
            .phases
            .iter()
            .map(|phase| phase.start_ns)
            .filter(|&start| loaded.is_none_or(|loaded| start > loaded))
            .map(at)
            .collect();
        Self {
            start: from_the_start.then(|| at(first)),
            loaded: loaded.filter(|_| from_the_start).map(at),
            phases: middle(&in_run),
            end: Some(at(last)),
        }
    }
}

/// Replaces the estimated clock offset of each rank by the median of the ranks on its host.
fn per_host(tracks: &[&Track], own: &[f64]) -> Vec<f64> {
    let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (track, &ahead) in tracks.iter().zip(own) {
        hosts.entry(&track.host).or_default().push(ahead);
    }
    let hosts: BTreeMap<&str, f64> = hosts
        .into_iter()
        .map(|(host, all)| (host, median(&all)))
        .collect();
    let of = |(track, &own): (&&Track, &f64)| match track.host.as_str() {
        "" => own,
        host => hosts.get(host).copied().unwrap_or(own),
    };
    tracks.iter().zip(own).map(of).collect()
}

/// The median; `None` for an empty list.
fn middle(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::sketch::{Sketch, a_rank, run_of};

    fn ahead_of(sketches: Vec<Sketch>, hosts: &[&str]) -> Vec<f64> {
        let mut run = run_of(sketches);
        for (track, host) in run.tracks.iter_mut().zip(hosts) {
            (*host).clone_into(&mut track.host);
        }
        ahead(&run.tracks.iter().collect::<Vec<_>>())
    }

    #[test]
    fn finds_how_far_clocks_are_apart() {
        let ranks = vec![
            a_rank(0),
            a_rank(1).clock_ahead(40),
            a_rank(2).clock_ahead(-25),
        ];
        let ahead = ahead_of(ranks, &[]);
        assert!((ahead[1] - ahead[0] - 40.0).abs() < 1.0, "{ahead:?}");
        assert!((ahead[2] - ahead[0] + 25.0).abs() < 1.0, "{ahead:?}");
    }

    #[test]
    fn corrections_bring_all_ranks_to_the_clock_of_the_lowest() {
        let run = run_of([a_rank(1).clock_ahead(40), a_rank(0)]);
        let seconds: Vec<i64> = run
            .clock_corrections_ns()
            .iter()
            .map(|ns| (ns + 500_000_000).div_euclid(1_000_000_000))
            .collect();
        assert_eq!(seconds, [-40, 0]);
    }

    #[test]
    fn a_late_recorder_does_not_shift_its_clock() {
        let ahead = ahead_of(vec![a_rank(0), a_rank(1).attached_at(70), a_rank(2)], &[]);
        assert!(ahead.iter().all(|a| a.abs() < 1.0), "{ahead:?}");
    }

    #[test]
    fn ranks_of_a_host_share_its_clock() {
        let ranks = (0..6).map(|r| {
            if r == 1 {
                a_rank(r).samples(380)
            } else {
                a_rank(r)
            }
        });
        let ahead = ahead_of(ranks.collect(), &["a", "a", "a", "b", "b", "b"]);
        assert!((ahead[0] - ahead[1]).abs() < 1e-9, "{ahead:?}");
    }
}
