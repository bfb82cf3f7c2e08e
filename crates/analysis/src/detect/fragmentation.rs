//! `fragmentation`: after the warm-up, reserved memory rises several times and is not released,
//! although no new peak of allocated memory explains the rises.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::signals::Signals;
use super::evidence::{Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use crate::stats::{median, quantile};
use crate::timeline::{AllocatorSettings, Framework, Track};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::Fragmentation,
    title: "Fragmentation",
    noun: "fragmentation",
    label: "fragmentation",
    resource: Judged::Device,
    is_growth: false,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

/// Smallest growth of the excess (reserved memory minus the peak of allocated memory so far), as a
/// share of the peak of the run. Fragmentation is defined by growth of at least 18 %. This limit is
/// lower: until the peak has been sampled, the excess seems too large, and so the growth of the
/// excess seems too small.
const MIN_EXCESS: f64 = 0.15;
/// Minimum number of climbs (rises of reserved memory that no new peak of allocated memory
/// explains), and the largest size of one climb, as a share of the growth of the excess. The reason
/// for a single climb may be a peak of allocated memory between two samples.
const MIN_CLIMBS: usize = 3;
const MAX_SINGLE: f64 = 0.6;
/// Smallest climb that counts, as a share of the growth of the excess (reserved memory beyond the
/// peak of allocated memory).
const MIN_CLIMB: f64 = 0.02;
/// Climbs must be spread over at least the share `MIN_SPREAD` of the run. At most the share
/// `MAX_EARLY` of their bytes may come in the first part of the run, whose length is the share
/// `EARLY` of the run. Reserved memory also climbs when allocated memory reaches a new peak between
/// two samples, which is not fragmentation. Such climbs come early in the run, because new peaks
/// become rarer over time.
const MIN_SPREAD: f64 = 0.1;
const EARLY: f64 = 0.45;
const MAX_EARLY: f64 = 0.85;
/// Share of the bytes of all climbs after which fragmentation counts as begun, because earlier
/// climbs of reserved memory may only cover a peak between two samples.
const BEGUN: f64 = 0.08;
/// Largest ratio between the growth of the peak of allocated memory and the growth of the excess
/// (reserved memory minus this peak). When the ratio is larger, reserved memory only follows
/// allocated memory. When the peak rises from one sample to the next by at least the share `SUDDEN`
/// of the device, the rise is not counted, because it is a spike or a jump.
const MAX_PEAK_GROWTH: f64 = 0.8;
const SUDDEN: f64 = 0.015;
/// When reserved memory and the memory of other processes fill at least this share of the device,
/// fragmentation is a warning even when the program ended normally.
const CROWDED: f64 = 0.5;
/// Growth of reserved memory since the onset of a leak is explained by the leak, up to this
/// multiple of the leak's growth.
const MAX_OF_LEAK: f64 = 1.5;
/// Minimum number of samples before the end of the warm-up, and after it.
const MIN_BEFORE: usize = 4;
const MIN_AFTER: usize = 16;

/// Checks every rank for fragmentation of the allocator's reserved memory, and reports each rank
/// that has it, or the whole run when all ranks have it.
fn check(evidence: &Evidence) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    let found = evidence.subjects.iter().filter_map(judge).collect();
    Answer::from_findings(draft::per_rank_or_run(evidence, found))
}

/// One sample: its time in seconds, and the memory that the allocator had reserved, in bytes.
#[derive(Debug, Clone, Copy)]
struct Point {
    t: f64,
    reserved: f64,
    /// Peak of allocated memory up to this sample, in bytes.
    peak: f64,
}

/// A rise of reserved memory that no new peak of allocated memory explains: its time in seconds and
/// its size in bytes.
#[derive(Debug, Clone, Copy)]
struct Climb {
    t: f64,
    bytes: f64,
}

fn judge(subject: &Subject) -> Option<Finding> {
    let signals = &subject.signals;
    // Samples at step ends do not show the peaks within steps. Without the allocator's peak
    // counter, a rise of reserved memory for a higher peak would look like fragmentation.
    if signals.is_stepped && signals.peak.y.is_empty() {
        return None;
    }
    let points = points_of(signals);
    // When reserved memory never exceeds the peak of allocated memory, as on a CPU, there is no
    // cache that could be fragmented.
    points.iter().find(|p| p.reserved > p.peak)?;
    let start = points.partition_point(|p| p.t < signals.warm_end);
    if start < MIN_BEFORE || points.len() < start + MIN_AFTER {
        return None;
    }
    let near = (points.len() / 50).max(3).min(start);
    let last = points.len() - (points.len() / 10).max(3);
    // A cache that was emptied during the warm-up may grow back to its former size without
    // fragmentation.
    let refilled = held_before(&points[..start]) - points[start - 1].peak;
    let grown = excess(&points[last..]) - excess(&points[start - near..start]).max(refilled);
    let peak = points[points.len() - 1].peak;
    let peak_grown = gradual_growth(&points[start..], SUDDEN * signals.scale);
    if grown < MIN_EXCESS * peak || peak_grown > MAX_PEAK_GROWTH * grown {
        return None;
    }
    // When allocated memory leaks, reserved memory grows with it, so that growth does not count as
    // fragmentation.
    if let Some(leak) = &subject.allocated.growth {
        let before = points.partition_point(|p| p.t < leak.onset);
        let held = |point: Option<&Point>| point.map_or(0.0, |p| p.reserved);
        let climbed = held(points.last()) - held(points.get(before));
        if climbed <= MAX_OF_LEAK * leak.grown {
            return None;
        }
    }
    let climbs = climbs(&points[start..], MIN_CLIMB * grown);
    let largest = climbs.iter().map(|c| c.bytes).fold(0.0, f64::max);
    let (early, late) = (reached(&climbs, 0.1)?, reached(&climbs, 0.9)?);
    let spread = climbs[late].t - climbs[early].t;
    let middle = signals.end - (1.0 - EARLY) * signals.span;
    let all: f64 = climbs.iter().map(|c| c.bytes).sum();
    let over_early: f64 = climbs
        .iter()
        .filter(|c| c.t < middle)
        .map(|c| c.bytes)
        .sum();
    if climbs.len() < MIN_CLIMBS
        || largest > MAX_SINGLE * grown
        || spread < MIN_SPREAD * signals.span
        || over_early > MAX_EARLY * all
    {
        return None;
    }
    let onset = climbs[reached(&climbs, BEGUN)?].t;
    Some(describe(subject, onset, grown, peak, climbs.len()))
}

fn points_of(signals: &Signals) -> Vec<Point> {
    let series = &signals.allocated;
    let mut peak = 0.0_f64;
    // The allocator's own peak counter is used where it was recorded, because it includes peaks
    // between samples.
    let mut counted = signals.peak.t.iter().zip(&signals.peak.y).peekable();
    series
        .t
        .iter()
        .zip(&series.y)
        .zip(&signals.reserved)
        .filter_map(|((&t, &allocated), &reserved)| {
            peak = peak.max(allocated);
            while let Some((_, &bytes)) = counted.next_if(|(at, _)| **at <= t) {
                peak = peak.max(bytes);
            }
            reserved.is_finite().then_some(Point { t, reserved, peak })
        })
        .collect()
}

/// Bytes by which the peak of allocated memory grew over `points`, counting only increments of less
/// than `sudden` bytes each.
fn gradual_growth(points: &[Point], sudden: f64) -> f64 {
    let records = points.windows(2).map(|w| w[1].peak - w[0].peak);
    records.filter(|&bytes| bytes < sudden).sum()
}

/// Median over `points` of reserved memory minus the peak of allocated memory so far, in bytes.
fn excess(points: &[Point]) -> f64 {
    median(
        &points
            .iter()
            .map(|p| p.reserved - p.peak)
            .collect::<Vec<_>>(),
    )
}

/// The 95 % quantile of reserved memory, in bytes: a size that was held for more than a moment.
fn held_before(points: &[Point]) -> f64 {
    quantile(&points.iter().map(|p| p.reserved).collect::<Vec<_>>(), 0.95)
}

/// The climbs: rises of reserved memory that are never released again. The rise of the peak of
/// allocated memory at the same time is subtracted, and more than `least` bytes must remain.
fn climbs(settled: &[Point], least: f64) -> Vec<Climb> {
    let mut kept: Vec<f64> = settled.iter().map(|p| p.reserved).collect();
    for k in (1..kept.len()).rev() {
        kept[k - 1] = kept[k - 1].min(kept[k]);
    }
    let (Some(first), Some(&at_first)) = (settled.first(), kept.first()) else {
        return Vec::new();
    };
    let (mut held, mut peak) = (at_first, first.peak);
    let mut climbs = Vec::new();
    for (point, &kept) in settled.iter().zip(&kept) {
        let bytes = (kept - held) - (point.peak - peak);
        if bytes > least {
            climbs.push(Climb { t: point.t, bytes });
        }
        if kept > held {
            (held, peak) = (kept, point.peak);
        }
    }
    climbs
}

/// The index of the climb at which a given share of the bytes of all climbs is reached.
fn reached(climbs: &[Climb], part: f64) -> Option<usize> {
    let all: f64 = climbs.iter().map(|c| c.bytes).sum();
    let mut climbed = 0.0;
    climbs.iter().position(|c| {
        climbed += c.bytes;
        climbed >= part * all
    })
}

/// The severity of fragmentation is info when the program ended normally and the device had room,
/// because a program with changing input shapes leaves a large cache.
fn severity(subject: &Subject) -> Severity {
    let signals = &subject.signals;
    let held = signals.reserved.iter().copied().fold(0.0, f64::max);
    let is_crowded = held + signals.neighbours >= CROWDED * signals.scale;
    if subject.end.is_normal() && !is_crowded {
        Severity::Info
    } else {
        Severity::Warning
    }
}

fn describe(subject: &Subject, onset: f64, grown: f64, peak: f64, climbs: usize) -> Finding {
    let signals = &subject.signals;
    let share = grown / peak;
    let severity = severity(subject);
    let mut finding = draft::finding(Kind::Fragmentation, severity, subject);
    finding.onset_ns = Some(signals.ns(onset));
    finding.magnitude_bytes = Some(draft::whole(grown));
    finding.phase = signals.phase_at(onset);
    finding.confidence = confidence::of_fragmentation(climbs);
    finding.evidence = vec![
        ("share_of_highest_allocation", share),
        ("highest_allocation_bytes", peak),
        ("climbs", climbs as f64),
    ];
    finding.size_words = format!(
        "{} more cached than needed, {} of the peak ({})",
        words::bytes(grown),
        words::percent(share),
        words::bytes(peak)
    );
    finding.explanation = format!(
        "The allocator's cache has grown by {excess} in {climbs} rises, while allocated memory \
         reached no new peak; {excess} is {share} of that peak ({peak})",
        excess = words::bytes(grown),
        share = words::percent(share),
        peak = words::bytes(peak),
    );
    finding.advice = format!(
        "Blocks of the wrong sizes pile up in the cache: {setting}pad inputs to a few fixed shapes, \
         and keep long-lived buffers apart from those of single steps",
        setting = setting(signals.track),
    );
    finding
}

/// The first version of `PyTorch` whose allocator can grow its segments.
const EXPANDABLE_SINCE: (u32, u32) = (2, 1);

/// The setting of `PyTorch`'s allocator to try; empty when it has it already. All versions obey
/// `PYTORCH_CUDA_ALLOC_CONF`. The text of the variable replaces all earlier settings, so the
/// settings that the program was run with are repeated.
fn setting(track: &Track) -> String {
    const WANTED: &str = "expandable_segments";
    let AllocatorSettings { torch, given } = &track.allocator;
    let is_old = torch.is_some_and(|version| version < EXPANDABLE_SINCE);
    let is_on = given.iter().any(|one| *one == format!("{WANTED}:True"));
    let is_other = matches!(track.framework, Framework::Jax | Framework::TensorFlow);
    if is_old || is_on || is_other {
        return String::new();
    }
    let kept = given.iter().filter(|one| !one.starts_with(WANTED));
    let mut settings: Vec<&str> = kept.map(String::as_str).collect();
    let wanted = format!("{WANTED}:True");
    settings.push(&wanted);
    format!("set PYTORCH_CUDA_ALLOC_CONF={}, ", settings.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;

    fn answer_on(sketch: Sketch) -> Answer {
        check(&Evidence::of(&run_of([sketch])))
    }

    fn fragmenting(climbs: i64, each: i64) -> Sketch {
        (0..climbs).fold(a_rank(0), |s, k| s.reserved_jumps(each, 150 + k * 20))
    }

    #[test]
    fn finds_a_cache_that_climbs_away() {
        let answer = answer_on(fragmenting(8, gib(1)));
        let [found] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(seconds_since_start(found.onset_ns), 150);
        let grown = found.magnitude_bytes.unwrap();
        assert!((gib(8) - mib(20)..=gib(8)).contains(&grown), "{grown}");
    }

    #[test]
    fn the_setting_repeats_those_that_are_given() {
        let advised = |torch: Option<(u32, u32)>, given: &[&str], framework: Framework| {
            setting(&Track {
                framework,
                allocator: AllocatorSettings {
                    torch,
                    given: given.iter().map(|one| (*one).to_owned()).collect(),
                },
                ..Track::default()
            })
        };
        let set = "set PYTORCH_CUDA_ALLOC_CONF=";
        let torch = Framework::Torch;
        assert_eq!(
            advised(None, &[], torch),
            format!("{set}expandable_segments:True, ")
        );
        let given = ["max_split_size_mb:64", "expandable_segments:False"];
        let repeated = "max_split_size_mb:64,expandable_segments:True, ";
        assert_eq!(
            advised(Some((2, 9)), &given, torch),
            format!("{set}{repeated}")
        );
        assert_eq!(
            advised(Some((2, 9)), &["expandable_segments:True"], torch),
            ""
        );
        assert_eq!(advised(Some((2, 0)), &[], torch), "");
        assert_eq!(advised(None, &[], Framework::Jax), "");
    }

    #[test]
    fn one_climb_may_cover_a_peak_between_samples() {
        assert_eq!(
            answer_on(a_rank(0).reserved_jumps(gib(8), 200)),
            Answer::Clear
        );
    }

    #[test]
    fn a_small_excess_is_ordinary() {
        assert_eq!(answer_on(fragmenting(8, mib(300))), Answer::Clear);
    }

    #[test]
    fn a_cache_that_follows_a_leak_is_not_fragmented() {
        assert_eq!(answer_on(a_rank(0).grows(mib(60), 120)), Answer::Clear);
    }

    #[test]
    fn a_cache_that_fills_again_is_not_fragmented() {
        // After it was emptied in the warm-up, the cache grows back to its former size in four
        // climbs.
        let emptied = (0..4).fold(a_rank(0).reserved_jumps(gib(8), 25), |s, k| {
            s.reserved_jumps(gib(2), 130 + k * 50)
        });
        assert_eq!(
            answer_on(emptied.reserved_jumps(-gib(8), 80)),
            Answer::Clear
        );
    }

    #[test]
    fn a_spike_does_not_hide_fragmentation() {
        let answer = answer_on(fragmenting(9, gib(1)).spikes(gib(9), 300, 4));
        assert_eq!(answer.findings().len(), 1);
    }

    #[test]
    fn a_cpu_has_no_cache() {
        assert_eq!(
            answer_on(a_rank(0).on_cpu().grows(mib(60), 120)),
            Answer::Clear
        );
    }
}
