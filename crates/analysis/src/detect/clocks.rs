//! Common time for ranks whose hosts' clocks disagree.
//!
//! Ranks of one job load, step, evaluate and stop together, so that whatever they have in common
//! shows how far their clocks are apart: the end of the model load, marked phases, and the first
//! and the last sample. Each is wrong in its own way (a recorder attaches late, a rank stops early),
//! so that the middle one is believed. Ranks of one host share a clock.

use super::evidence::Subject;
use super::signals::seconds_between;
use super::stats::median;
use std::collections::BTreeMap;

/// A recorder that saw less than this share of the working level first was there from the start.
const FROM_THE_START: f64 = 0.1;

/// How far each subject's clock is ahead of the common one, in seconds.
pub(super) fn ahead(subjects: &[&Subject]) -> Vec<f64> {
    let Some(origin) = subjects.iter().map(|s| s.signals.start_ns).min() else {
        return Vec::new();
    };
    let marks: Vec<Marks> = subjects
        .iter()
        .map(|s| Marks::of(s, seconds_between(origin, s.signals.start_ns)))
        .collect();
    let common = |pick: &dyn Fn(&Marks) -> Option<f64>| {
        median(&marks.iter().filter_map(pick).collect::<Vec<_>>())
    };
    let centre = [
        common(&|m: &Marks| m.start),
        common(&|m: &Marks| m.loaded),
        common(&|m: &Marks| m.phases),
        common(&|m: &Marks| Some(m.end)),
    ];
    let own: Vec<f64> = marks
        .iter()
        .map(|m| {
            let estimates: Vec<f64> = [m.start, m.loaded, m.phases, Some(m.end)]
                .into_iter()
                .zip(centre)
                .filter_map(|(mark, centre)| mark.map(|mark| mark - centre))
                .collect();
            median(&estimates)
        })
        .collect();
    per_host(subjects, &own)
}

/// Times that ranks have in common, in seconds of wall clock; `None` where a rank lacks them.
struct Marks {
    start: Option<f64>,
    loaded: Option<f64>,
    phases: Option<f64>,
    end: f64,
}

impl Marks {
    fn of(subject: &Subject, start: f64) -> Self {
        let signals = &subject.signals;
        let working = median(&signals.allocated.y);
        let first = signals.allocated.y.first().copied().unwrap_or(0.0);
        let from_the_start = first < FROM_THE_START * working;
        let in_run: Vec<f64> = signals
            .track
            .phases
            .iter()
            .map(|phase| signals.seconds(phase.start_ns))
            .filter(|&at| at > signals.train_start)
            .collect();
        Self {
            start: from_the_start.then_some(start),
            loaded: from_the_start.then_some(start + signals.train_start),
            phases: (!in_run.is_empty()).then(|| start + median(&in_run)),
            end: start + signals.end,
        }
    }
}

/// The middle estimate of each host for all its ranks.
fn per_host(subjects: &[&Subject], own: &[f64]) -> Vec<f64> {
    let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (subject, &ahead) in subjects.iter().zip(own) {
        hosts
            .entry(&subject.signals.track.host)
            .or_default()
            .push(ahead);
    }
    subjects
        .iter()
        .zip(own)
        .map(
            |(subject, &ahead)| match subject.signals.track.host.as_str() {
                "" => ahead,
                host => hosts.get(host).map_or(ahead, |all| median(all)),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Evidence;
    use super::super::sketch::{Sketch, a_rank, run_of};
    use super::*;

    fn ahead_of(sketches: Vec<Sketch>, hosts: &[&str]) -> Vec<f64> {
        let mut run = run_of(sketches);
        for (track, host) in run.tracks.iter_mut().zip(hosts) {
            (*host).clone_into(&mut track.host);
        }
        let evidence = Evidence::of(&run);
        ahead(&evidence.subjects.iter().collect::<Vec<_>>())
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
