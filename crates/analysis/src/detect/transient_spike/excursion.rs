//! Finds short excursions of a memory signal above its ordinary samples, and drops excursions that
//! recur regularly. The search looks at one track at a time, without ranks or findings.

use stormlog_format::whole_count;

use super::rhythm;
use crate::detect::evidence::signals::Signals;
use crate::detect::evidence::{Channel, Course, peaks};

/// Smallest height of an excursion above the normal peak, as a share of the device. A spike is
/// defined as at least 2.3 % above the true peak; this limit is lower because samples may miss the
/// true peak.
const MIN_HEIGHT: f64 = 0.018;
/// Smallest distance between the highest ordinary sample and the lowest sample of any excursion, as
/// a share of the device.
const MIN_GAP: f64 = 0.5 * MIN_HEIGHT;
/// Longest duration of an excursion: `MAX_SAMPLES` samples or `MAX_SHARE` of the run, whichever is
/// longer.
const MAX_SAMPLES: f64 = 9.0;
const MAX_SHARE: f64 = 0.03;
/// Maximum number of spikes per run; more excursions are part of the program's normal behaviour.
const MAX_SPIKES: usize = 3;
/// Maximum number of excursions of a track, regular ones included. Evaluations that rise above the
/// normal peak are excursions too, unless they are marked as a phase; the limit assumes that a run
/// has at most this many of them.
const MAX_EVENTS: u32 = 12;
/// Minimum number of samples needed to distinguish ordinary samples from unusually high ones.
const MIN_SAMPLES: usize = 32;
/// Samples nearer to a marked phase than this many sampling intervals belong to the phase.
const PHASE_SLACK: f64 = 2.0;
/// The optimizer's first update may raise the peak within this share of the run after the first
/// step, so rises in this time are ordinary.
const FIRST_STEPS_SHARE: f64 = 0.02;

/// An excursion: a group of neighbouring memory samples that rise above the ordinary samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Excursion {
    /// Time of the excursion's first sample, in seconds since the track's first sample.
    pub(super) from: f64,
    /// Time of the excursion's last sample, in seconds since the track's first sample.
    pub(super) to: f64,
    /// Distance from the highest ordinary sample to the lowest sample of the excursion, in bytes.
    pub(super) height: f64,
    /// The highest sample of the excursion: memory in bytes, as recorded.
    pub(super) level: f64,
    /// Highest minus lowest sample of the excursion in bytes, both measured above the floor.
    pub(super) range: f64,
    pub(super) samples: usize,
    /// Whether the track has samples after the excursion, so that the excursion has ended.
    pub(super) is_over: bool,
}

impl Excursion {
    /// The bytes of the highest sample (`level`) minus `range`. The result is the lowest sample of
    /// the excursion if the floor stays constant during the excursion.
    pub(super) fn lowest(&self) -> f64 {
        self.level - self.range
    }

    /// Distance from the highest ordinary sample to the highest sample of the excursion, in bytes.
    pub(super) fn top(&self) -> f64 {
        self.height + self.range
    }

    /// Whether the two excursions overlap in time.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The samples of one channel (allocated or hidden memory) with their heights above the floor, and
/// their order by height.
struct Heights<'a> {
    t: &'a [f64],
    /// For each sample, its bytes above the floor.
    y: Vec<f64>,
    /// For each sample, its bytes as recorded.
    bytes: &'a [f64],
    /// Indices of the samples outside marked phases, sorted by height above the floor, the highest
    /// first.
    ranking: Vec<usize>,
}

/// Finds the excursions of a channel above its ordinary samples.
///
/// Excursions are separated from the ordinary samples by a gap in height. The search sorts the
/// samples by height and tries the gaps between neighbours in this order, from low to high. A gap
/// is accepted when only a few short excursions lie above it. Ordinary peaks are rejected: the
/// heights of their samples have no large gap, or only single samples lie above the gap.
pub(super) fn find(signals: &Signals, channel: Channel, course: &Course) -> Vec<Excursion> {
    let Some(heights) = heights(signals, channel, course) else {
        return Vec::new();
    };
    let longest = MAX_SAMPLES.max(MAX_SHARE * signals.span / signals.interval.max(1e-9));
    let max_samples = whole_count(f64::from(MAX_EVENTS) * longest);
    let mut regular: Vec<Excursion> = Vec::new();
    for above in (2..max_samples.min(heights.ranking.len() / 3)).rev() {
        let Some(events) = heights.events(above, longest, signals) else {
            continue;
        };
        // When the excursions above this gap recur regularly or are too many, none of them is a
        // spike. A spike may still lie above a higher gap.
        let Some(odd) = rhythm::without_regular(&events, MAX_SPIKES, signals) else {
            regular.extend(events);
            continue;
        };
        let spikes: Vec<Excursion> = odd
            .into_iter()
            .filter(|e| e.is_over && e.from >= signals.warm_end)
            .filter(|e| e.height >= MIN_HEIGHT * signals.scale)
            .filter(|e| !regular.iter().any(|r| r.overlaps(e)))
            .collect();
        if regular.is_empty() || !spikes.is_empty() {
            return spikes;
        }
    }
    Vec::new()
}

fn heights<'a>(signals: &'a Signals, channel: Channel, course: &Course) -> Option<Heights<'a>> {
    let (_, floor) = signals.channel(channel);
    let series = signals.recorded(channel);
    let from = signals.train_start + FIRST_STEPS_SHARE * signals.span;
    let first = series.index_at(from);
    if series.len() < first + MIN_SAMPLES {
        return None;
    }
    let y = peaks::above_floor(series, course, floor, from);
    let t = &series.t[first..];
    let slack = PHASE_SLACK * signals.interval;
    let mut ranking: Vec<usize> = (0..y.len())
        .filter(|&i| !signals.interruptions.contain(t[i], slack))
        .collect();
    ranking.sort_unstable_by(|&a, &b| y[b].total_cmp(&y[a]));
    Some(Heights {
        t,
        y,
        bytes: &series.y[first..],
        ranking,
    })
}

impl Heights<'_> {
    /// The excursions formed by the highest `above` samples. `None` when no gap in height separates
    /// these samples from the rest. Also `None` when an excursion is too long, or when
    /// there are too many excursions or too many single high samples.
    fn events(&self, above: usize, longest: f64, signals: &Signals) -> Option<Vec<Excursion>> {
        let ordinary = self.y[self.ranking[above]];
        if self.y[self.ranking[above - 1]] - ordinary < MIN_GAP * signals.scale {
            return None;
        }
        let runs = self.runs(above, ordinary);
        let (runs, single): (Vec<Excursion>, Vec<Excursion>) =
            runs.into_iter().partition(|e| e.samples >= 2);
        let events = joined(&runs, signals);
        let too_long = events.iter().any(|e| e.samples as f64 > longest + 1.0);
        let many = events.len() > MAX_EVENTS as usize;
        (!too_long && !many && single.len() <= events.len()).then_some(events)
    }

    /// Groups the `above` highest samples into excursions, in order of time: samples that directly
    /// follow each other form one excursion.
    fn runs(&self, above: usize, ordinary: f64) -> Vec<Excursion> {
        let mut highest = self.ranking[..above].to_vec();
        highest.sort_unstable();
        highest
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| {
                let (first, last) = (run[0], run[run.len() - 1]);
                let (low, high) = range_of(&self.y[first..=last]);
                Excursion {
                    from: self.t[first],
                    to: self.t[last],
                    height: low - ordinary,
                    level: range_of(&self.bytes[first..=last]).1,
                    range: high - low,
                    samples: run.len(),
                    is_over: last + 1 < self.y.len(),
                }
            })
            .collect()
    }
}

fn range_of(values: &[f64]) -> (f64, f64) {
    let widen = |(low, high): (f64, f64), &v: &f64| (low.min(v), high.max(v));
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), widen)
}

/// Joins groups of samples that are separated by only one or two lower samples.
fn joined(runs: &[Excursion], signals: &Signals) -> Vec<Excursion> {
    let near = 3.5 * signals.interval;
    runs.chunk_by(|a, b| b.from - a.to <= near)
        .map(|parts| {
            let last = parts[parts.len() - 1];
            let samples = parts.iter().map(|e| e.samples).sum();
            Excursion {
                to: last.to,
                is_over: last.is_over,
                samples,
                ..parts[0]
            }
        })
        .collect()
}
