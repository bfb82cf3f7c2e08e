//! Attributes gaps to collective communication (such as NCCL's all-reduce), with the scores of
//! stormlog 0.3.9. A gap is device memory in use beyond what the allocator has reserved.

mod config;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use crate::gap::regression::{mean, median, sample_deviation};
use crate::gap::rounding;
use crate::gap::samples::{device_gap, device_total};
use crate::phases::{self, PhaseAttribution};
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::{EventRef, Events};
use stormlog_format::classify::is_sample;
use stormlog_format::{Map, names};

pub use config::{CollectiveConfig, ConfigError, FIELDS, Preset, check_fields};

use super::cross_rank::ResolvePhase;
use tokens::TokenSearch;

/// How certain it is that a gap comes from collective communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CollectiveClass {
    /// The gap possibly comes from collective communication.
    Suspect,
    /// The gap more likely than not comes from collective communication.
    Likely,
    /// The gap almost certainly comes from collective communication.
    Confident,
}

names!(CollectiveClass {
    Suspect => "collective_suspect",
    Likely => "collective_likely",
    Confident => "collective_confident",
});

impl CollectiveClass {
    fn of(confidence: f64) -> Self {
        match confidence {
            c if c >= 0.8 => Self::Confident,
            c if c >= 0.6 => Self::Likely,
            _ => Self::Suspect,
        }
    }
}

/// The numbers behind the attribution of a gap to collective communication.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct CollectiveEvidence {
    pub marker_hits: usize,
    pub synchronized_ranks: usize,
    pub expected_world_size: i64,
    pub synchrony_ratio: f64,
    pub peak_gap_bytes: i64,
    pub peak_gap_ratio: Option<f64>,
    pub robust_zscore: f64,
}

/// A time span in which a rank's gap is attributed to collective communication.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct CollectiveAttribution {
    pub rank: i64,
    pub interval_start_ns: i64,
    pub interval_end_ns: i64,
    #[serde(rename = "classification")]
    pub class: CollectiveClass,
    pub confidence: f64,
    pub reason_codes: BTreeSet<&'static str>,
    pub evidence: CollectiveEvidence,
    #[serde(rename = "phase_attribution")]
    #[schemars(with = "Option<Map>")]
    pub phase: Option<PhaseAttribution>,
}

#[derive(Clone, Copy)]
struct Sample {
    timestamp_ns: i64,
    index: usize,
    gap: i64,
    ratio: Option<f64>,
}

struct Spike {
    sample: Sample,
    zscore: f64,
    markers: Vec<i64>,
}

/// Finds the time spans in which the gap of a rank probably comes from collective communication.
/// The function `resolve` returns the phase of the program at a time.
pub fn attribute(
    events: &Events,
    config: &CollectiveConfig,
    resolve: Option<&ResolvePhase<'_>>,
) -> Vec<CollectiveAttribution> {
    let Some(start_ns) = events.iter().map(EventRef::timestamp_ns).min() else {
        return Vec::new();
    };
    let world_size = events
        .iter()
        .map(|event| event.origin().world_size)
        .max()
        .unwrap_or(1);
    let samples = samples_by_rank(events);
    let markers = if samples.values().any(|of_rank| may_spike(of_rank, config)) {
        markers_by_rank(events)
    } else {
        HashMap::new()
    };
    let spikes: BTreeMap<i64, Vec<Spike>> = samples
        .into_iter()
        .map(|(rank, of_rank)| {
            let markers = markers.get(&rank).map_or(&[][..], Vec::as_slice);
            (rank, spikes(&of_rank, markers, config))
        })
        .filter(|(_, spikes)| !spikes.is_empty())
        .collect();
    let clock = Synchrony::of(&spikes, config.synchrony_window_ns);
    let scored = spikes.iter().flat_map(|(rank, of_rank)| {
        let clock = &clock;
        of_rank.iter().filter_map(move |spike| {
            let ranks = clock.ranks_near(spike);
            let mut found = score(*rank, spike, ranks, world_size, start_ns, config)?;
            let sample = &spike.sample;
            let session_id = &events.get(sample.index)?.origin().session_id;
            found.phase =
                resolve.and_then(|resolve| resolve(sample.timestamp_ns, session_id, *rank));
            Some(found)
        })
    });
    merge_overlapping(scored.collect())
}

fn samples_by_rank(events: &Events) -> BTreeMap<i64, Vec<Sample>> {
    let mut index_by_rank: HashMap<i64, usize> = HashMap::new();
    let mut ranks: Vec<(i64, Vec<Sample>)> = Vec::new();
    let mut of_origin: Vec<Option<usize>> = vec![None; events.origin_count()];
    for (index, event, origin) in events.of_type(is_sample) {
        let Some(gap) = device_gap(event) else {
            continue;
        };
        let gap = gap.max(0);
        let rank = *of_origin[origin].get_or_insert_with(|| {
            let rank = event.origin().rank;
            *index_by_rank.entry(rank).or_insert_with(|| {
                ranks.push((rank, Vec::new()));
                ranks.len() - 1
            })
        });
        ranks[rank].1.push(Sample {
            timestamp_ns: event.timestamp_ns(),
            index,
            gap,
            ratio: device_total(event).map(|total| gap as f64 / total as f64),
        });
    }
    for (_, of_rank) in &mut ranks {
        of_rank.sort_by_key(|sample| sample.timestamp_ns);
    }
    ranks.into_iter().collect()
}

/// Whether any sample of a rank has a gap that is large enough to be a spike. Without a large gap
/// in any sample, the search for spikes is skipped.
fn may_spike(samples: &[Sample], config: &CollectiveConfig) -> bool {
    samples.len() as f64 >= config.min_samples_per_rank
        && samples.iter().any(|sample| is_significant(sample, config))
}

fn is_significant(sample: &Sample, config: &CollectiveConfig) -> bool {
    sample
        .ratio
        .is_some_and(|ratio| ratio >= config.min_gap_ratio)
        || sample.gap as f64 >= config.min_gap_bytes
}

/// For each rank, the sorted times of its events whose texts mention collective communication.
fn markers_by_rank(events: &Events) -> HashMap<i64, Vec<i64>> {
    let mut search = TokenSearch::default();
    let mut by_rank: HashMap<i64, Vec<i64>> = HashMap::new();
    for event in events.iter() {
        if search.speaks_of_collective(event) {
            let times = by_rank.entry(event.origin().rank).or_default();
            times.push(event.timestamp_ns());
        }
    }
    for times in by_rank.values_mut() {
        times.sort_unstable();
    }
    by_rank
}

fn spikes(samples: &[Sample], markers: &[i64], config: &CollectiveConfig) -> Vec<Spike> {
    if !may_spike(samples, config) {
        return Vec::new();
    }
    let gaps: Vec<f64> = samples.iter().map(|sample| sample.gap as f64).collect();
    let scale = RobustScale::of(&gaps);
    let significant = samples
        .iter()
        .filter(|sample| is_significant(sample, config));
    significant
        .filter_map(|sample| {
            let zscore = scale.score(sample.gap as f64);
            (zscore >= config.robust_zscore_threshold).then(|| Spike {
                sample: *sample,
                zscore: rounding::python(zscore, 4),
                markers: near(markers, sample.timestamp_ns, config.marker_window_ns).to_vec(),
            })
        })
        .collect()
}

/// The part of `times`, which must be sorted, that is at most `window_ns` before or after `at_ns`.
fn near(times: &[i64], at_ns: i64, window_ns: f64) -> &[i64] {
    let apart = |time: i64| time.saturating_sub(at_ns) as f64;
    let first = times.partition_point(|time| apart(*time) < -window_ns);
    let last = times.partition_point(|time| apart(*time) <= window_ns);
    &times[first..last.max(first)]
}

/// Measures how far a value lies from the other values, by their median and median absolute
/// deviation (MAD). When the MAD is zero, mean and standard deviation are used instead.
struct RobustScale {
    centre: f64,
    spread: f64,
    factor: f64,
}

impl RobustScale {
    fn of(values: &[f64]) -> Self {
        let centre = median(values);
        let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
        let mad = median(&distances);
        if mad > 0.0 {
            return Self {
                centre,
                spread: mad,
                factor: 0.6745,
            };
        }
        Self {
            centre: mean(values),
            spread: sample_deviation(values),
            factor: 1.0,
        }
    }

    fn score(&self, value: f64) -> f64 {
        if self.spread == 0.0 {
            return 0.0;
        }
        (self.factor * (value - self.centre) / self.spread).max(0.0)
    }
}

/// The spikes of all ranks as pairs of time and rank, in order of time, to count how many ranks
/// spike together.
struct Synchrony {
    spikes: Vec<(i64, i64)>,
    window_ns: f64,
}

impl Synchrony {
    fn of(by_rank: &BTreeMap<i64, Vec<Spike>>, window_ns: f64) -> Self {
        let mut spikes: Vec<(i64, i64)> = by_rank
            .iter()
            .flat_map(|(rank, spikes)| {
                spikes
                    .iter()
                    .map(|spike| (spike.sample.timestamp_ns, *rank))
            })
            .collect();
        spikes.sort_unstable();
        Self { spikes, window_ns }
    }

    /// The number of ranks with a spike within the time window around a spike, including the
    /// spike's own rank.
    fn ranks_near(&self, spike: &Spike) -> usize {
        let apart =
            |(at_ns, _): &(i64, i64)| at_ns.saturating_sub(spike.sample.timestamp_ns) as f64;
        let first = self
            .spikes
            .partition_point(|at| apart(at) < -self.window_ns);
        let near = self.spikes[first..]
            .iter()
            .take_while(|at| apart(at) <= self.window_ns);
        near.map(|(_, rank)| *rank)
            .collect::<BTreeSet<_>>()
            .len()
            .max(1)
    }
}

fn score(
    rank: i64,
    spike: &Spike,
    ranks: usize,
    world_size: i64,
    start_ns: i64,
    config: &CollectiveConfig,
) -> Option<CollectiveAttribution> {
    let synchrony = if world_size > 1 {
        (ranks as f64 - 1.0) / (world_size as f64 - 1.0)
    } else {
        0.0
    };
    let alone = world_size <= 1 || ranks <= 1;
    let sample = &spike.sample;
    let by_bytes = share(sample.gap as f64, config.min_gap_bytes);
    let by_ratio = sample
        .ratio
        .map_or(0.0, |ratio| share(ratio, config.min_gap_ratio));
    let divergence = by_bytes.max(by_ratio);
    let mut confidence = 0.34 * synchrony
        + 0.16 * share(spike.zscore, config.robust_zscore_threshold)
        + 0.16 * divergence;
    confidence += if spike.markers.is_empty() {
        -0.15
    } else {
        0.34
    };
    if alone {
        confidence -= 0.15;
    }
    if sample.ratio.is_none() {
        confidence -= 0.05;
    }
    let confidence = rounding::python(confidence.clamp(0.0, 1.0), 3);
    if confidence <= 0.0 || confidence < config.min_confidence {
        return None;
    }
    let mut reasons = BTreeSet::from(["gap_spike_statistical_outlier"]);
    if spike.markers.is_empty() {
        reasons.insert("weak_marker_signal");
    } else {
        reasons.extend(["marker_collective_token", "marker_spike_overlap"]);
    }
    if synchrony >= config.min_synchrony_ratio {
        reasons.insert("cross_rank_synchrony");
    }
    if divergence >= 0.5 {
        reasons.insert("allocator_device_divergence");
    }
    if alone {
        reasons.insert("single_rank_only");
    }
    let at = sample.timestamp_ns;
    let first = spike.markers.first().map_or(at, |marker| at.min(*marker));
    let last = spike.markers.last().map_or(at, |marker| at.max(*marker));
    let padding = config.padding_ns();
    Some(CollectiveAttribution {
        rank,
        interval_start_ns: first.saturating_sub(padding).max(start_ns).max(0),
        interval_end_ns: last.saturating_add(padding),
        class: CollectiveClass::of(confidence),
        confidence,
        reason_codes: reasons,
        evidence: CollectiveEvidence {
            marker_hits: spike.markers.len(),
            synchronized_ranks: ranks,
            expected_world_size: world_size,
            synchrony_ratio: rounding::python(synchrony, 4),
            peak_gap_bytes: sample.gap,
            peak_gap_ratio: sample.ratio.map(|ratio| rounding::python(ratio, 6)),
            robust_zscore: spike.zscore,
        },
        phase: None,
    })
}

/// The quotient of a value and a threshold (`required`), but at most 1. The result is 1 if the
/// threshold is not positive.
fn share(value: f64, required: f64) -> f64 {
    if required <= 0.0 {
        1.0
    } else {
        (value / required).min(1.0)
    }
}

/// Joins attributions of the same rank whose time spans overlap into one.
fn merge_overlapping(mut found: Vec<CollectiveAttribution>) -> Vec<CollectiveAttribution> {
    found.sort_by_key(|one| (one.rank, one.interval_start_ns, one.interval_end_ns));
    let mut merged: Vec<CollectiveAttribution> = Vec::new();
    for next in found {
        match merged.last_mut() {
            Some(last)
                if last.rank == next.rank && next.interval_start_ns <= last.interval_end_ns =>
            {
                last.absorb(next);
            }
            _ => merged.push(next),
        }
    }
    merged
}

impl CollectiveAttribution {
    fn absorb(&mut self, other: Self) {
        self.interval_start_ns = self.interval_start_ns.min(other.interval_start_ns);
        self.interval_end_ns = self.interval_end_ns.max(other.interval_end_ns);
        self.class = self.class.max(other.class);
        self.confidence = self.confidence.max(other.confidence);
        self.reason_codes.extend(other.reason_codes);
        let (ours, theirs) = (&mut self.evidence, other.evidence);
        ours.marker_hits = ours.marker_hits.max(theirs.marker_hits);
        ours.synchronized_ranks = ours.synchronized_ranks.max(theirs.synchronized_ranks);
        ours.expected_world_size = ours.expected_world_size.max(theirs.expected_world_size);
        ours.synchrony_ratio = ours.synchrony_ratio.max(theirs.synchrony_ratio);
        ours.peak_gap_bytes = ours.peak_gap_bytes.max(theirs.peak_gap_bytes);
        ours.peak_gap_ratio = match (ours.peak_gap_ratio, theirs.peak_gap_ratio) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        };
        ours.robust_zscore = ours.robust_zscore.max(theirs.robust_zscore);
        self.phase = phases::merge(self.phase.take(), other.phase);
    }
}
