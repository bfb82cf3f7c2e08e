//! `fragmentation`: after the warm-up, reserved memory climbs in several steps away from the
//! highest allocation so far, and stays.

use super::evidence::{Evidence, Subject};
use super::finding::{Finding, Kind, Severity, Verdict};
use super::signals::Signals;
use super::stats::{median, quantile};
use super::{confidence, report, words};

/// Smallest growth of the excess, as a share of the highest allocation. The definition has 18 %; a
/// peak that was sampled late hides a part of it.
const MIN_EXCESS: f64 = 0.15;
/// Fewest climbs, and the most of the growth that one may make up: a single climb may cover a peak
/// that fell between two samples.
const MIN_CLIMBS: usize = 3;
const MAX_SINGLE: f64 = 0.6;
/// Smallest climb that counts, as a share of all growth.
const MIN_CLIMB: f64 = 0.02;
/// Share of the run over which climbs must be spread, and the share of it by which not more than
/// most of them may be over. A cache that only covers ever higher peaks between samples climbs soon
/// or never: the longer a run, the rarer a record.
const MIN_SPREAD: f64 = 0.1;
const EARLY: f64 = 0.45;
const MAX_EARLY: f64 = 0.85;
/// The part of the climbing that is over when it is said to have begun. A lone earlier climb covers a
/// peak that no sample caught.
const BEGUN: f64 = 0.08;
/// Growth of the highest allocation, as a share of that of the excess, up to which the excess is
/// news. Where allocations grow as fast, the cache only runs ahead of them. A new peak by more than
/// a share of the device at once is a spike or a jump, of which there are few: it raises both.
const MAX_PEAK_GROWTH: f64 = 0.8;
const SUDDEN: f64 = 0.015;
/// Share of a device from which on a cache is in the way of a program that ended normally.
const CROWDED: f64 = 0.5;
/// Growth of the cache, in units of a leak's, that the leak explains.
const MAX_OF_LEAK: f64 = 1.5;
/// Fewest samples before and after the end of the warm-up.
const MIN_BEFORE: usize = 4;
const MIN_AFTER: usize = 16;

/// Looks for fragmentation on every rank.
#[must_use]
pub fn check(evidence: &Evidence) -> Verdict {
    if evidence.too_short() {
        return Verdict::TooShort;
    }
    let found = evidence.subjects.iter().filter_map(judge).collect();
    Verdict::from_findings(report::per_rank_or_run(evidence, found))
}

/// A sample of the cache.
#[derive(Debug, Clone, Copy)]
struct Point {
    t: f64,
    reserved: f64,
    /// Highest allocation so far.
    peak: f64,
}

/// A rise of reserved memory that no new peak explains.
#[derive(Debug, Clone, Copy)]
struct Climb {
    t: f64,
    bytes: f64,
}

fn judge(subject: &Subject) -> Option<Finding> {
    let signals = &subject.signals;
    // Between steps nothing shows the peaks that the cache covers, unless they were counted.
    if signals.is_stepped && signals.peak.y.is_empty() {
        return None;
    }
    let points = points_of(signals);
    // Where nothing is ever reserved beyond the peak, as on a CPU, there is no cache to fragment.
    points.iter().find(|p| p.reserved > p.peak)?;
    let start = points.partition_point(|p| p.t < signals.warm_end);
    if start < MIN_BEFORE || points.len() < start + MIN_AFTER {
        return None;
    }
    let near = (points.len() / 50).max(3).min(start);
    let last = points.len() - (points.len() / 10).max(3);
    // What a cache held before it was emptied it may hold again.
    let refilled = held_before(&points[..start]) - points[start - 1].peak;
    let grown = excess(&points[last..]) - excess(&points[start - near..start]).max(refilled);
    let peak = points[points.len() - 1].peak;
    let peak_grown = gradual_growth(&points[start..], SUDDEN * signals.scale);
    if grown < MIN_EXCESS * peak || peak_grown > MAX_PEAK_GROWTH * grown {
        return None;
    }
    // Where allocations leak, the cache grows along with them.
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
    // The allocator's own counter knows the peaks that fell between samples.
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

/// Growth of the highest allocation in increments of less than `sudden` bytes.
fn gradual_growth(points: &[Point], sudden: f64) -> f64 {
    let records = points.windows(2).map(|w| w[1].peak - w[0].peak);
    records.filter(|&bytes| bytes < sudden).sum()
}

/// Typical excess of the cache over the highest allocation.
fn excess(points: &[Point]) -> f64 {
    median(
        &points
            .iter()
            .map(|p| p.reserved - p.peak)
            .collect::<Vec<_>>(),
    )
}

/// The most that the cache held, and not only for a moment.
fn held_before(points: &[Point]) -> f64 {
    quantile(&points.iter().map(|p| p.reserved).collect::<Vec<_>>(), 0.95)
}

/// Rises of at least `least` bytes that are never given back.
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

/// The climb that completes a given part of all climbing.
fn reached(climbs: &[Climb], part: f64) -> Option<usize> {
    let all: f64 = climbs.iter().map(|c| c.bytes).sum();
    let mut climbed = 0.0;
    climbs.iter().position(|c| {
        climbed += c.bytes;
        climbed >= part * all
    })
}

/// A cache that a device has room for costs nothing: inputs whose shapes change leave one behind.
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

#[allow(clippy::cast_precision_loss, reason = "a count of climbs")]
fn describe(subject: &Subject, onset: f64, grown: f64, peak: f64, climbs: usize) -> Finding {
    let signals = &subject.signals;
    let share = grown / peak;
    let severity = severity(subject);
    let mut finding = report::finding(Kind::Fragmentation, severity, subject);
    finding.onset_ns = Some(signals.ns(onset));
    finding.end_ns = Some(signals.ns(signals.end));
    finding.magnitude_bytes = Some(report::whole(grown));
    finding.phase = signals.phase_at(onset);
    finding.confidence = confidence::of_fragmentation(climbs);
    finding.evidence = vec![
        ("share_of_highest_allocation", share),
        ("highest_allocation_bytes", peak),
        ("climbs", climbs as f64),
    ];
    finding.explanation = format!(
        "The allocator's cache has climbed in {climbs} steps to {} more than it needs, {} of the \
         highest allocation of {}",
        words::bytes(grown),
        words::percent(share),
        words::bytes(peak),
    );
    finding.advice = "Blocks of the wrong sizes pile up in the cache: set \
                      PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, pad inputs to a few fixed \
                      shapes, and keep long-lived buffers apart from those of single steps"
        .into();
    finding
}

#[cfg(test)]
mod tests {
    use super::super::sketch::{Sketch, a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;

    fn verdict_on(sketch: Sketch) -> Verdict {
        check(&Evidence::of(&run_of([sketch])))
    }

    fn fragmenting(climbs: i64, each: i64) -> Sketch {
        (0..climbs).fold(a_rank(0), |s, k| s.reserved_jumps(each, 150 + k * 20))
    }

    #[test]
    fn finds_a_cache_that_climbs_away() {
        let verdict = verdict_on(fragmenting(8, gib(1)));
        let [found] = verdict.findings() else {
            panic!("{verdict:?}")
        };
        assert_eq!(seconds_since_start(found.onset_ns), 150);
        let grown = found.magnitude_bytes.unwrap();
        assert!((gib(8) - mib(20)..=gib(8)).contains(&grown), "{grown}");
    }

    #[test]
    fn one_climb_may_cover_a_peak_between_samples() {
        assert_eq!(
            verdict_on(a_rank(0).reserved_jumps(gib(8), 200)),
            Verdict::Clear
        );
    }

    #[test]
    fn a_small_excess_is_ordinary() {
        assert_eq!(verdict_on(fragmenting(8, mib(300))), Verdict::Clear);
    }

    #[test]
    fn a_cache_that_follows_a_leak_is_not_fragmented() {
        assert_eq!(verdict_on(a_rank(0).grows(mib(60), 120)), Verdict::Clear);
    }

    #[test]
    fn a_cache_that_fills_again_is_not_fragmented() {
        // Emptied in the warm-up, it comes back to where it was in four steps.
        let emptied = (0..4).fold(a_rank(0).reserved_jumps(gib(8), 25), |s, k| {
            s.reserved_jumps(gib(2), 130 + k * 50)
        });
        assert_eq!(
            verdict_on(emptied.reserved_jumps(-gib(8), 80)),
            Verdict::Clear
        );
    }

    #[test]
    fn a_spike_does_not_hide_fragmentation() {
        let verdict = verdict_on(fragmenting(9, gib(1)).spikes(gib(9), 300, 4));
        assert_eq!(verdict.findings().len(), 1);
    }

    #[test]
    fn a_cpu_has_no_cache() {
        assert_eq!(
            verdict_on(a_rank(0).on_cpu().grows(mib(60), 120)),
            Verdict::Clear
        );
    }
}
