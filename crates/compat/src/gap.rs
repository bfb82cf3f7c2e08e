//! Analyses hidden memory (the gap): the memory used on the device minus the memory reserved by the
//! allocator, with the rules and numbers of stormlog 0.3.9.

pub mod regression;
pub mod rounding;
pub mod samples;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::detect::Severity;
use stormlog_analysis::{EventRef, Events};
use stormlog_format::classify::is_sample;
use stormlog_format::json::by_name;
use stormlog_format::whole;

use regression::{fit, mean, sample_deviation};
use samples::{device_gap, device_total};

/// The thresholds above which the gap between used and reserved memory is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the thresholds are those of stormlog 0.3.9")]
pub struct GapThresholds {
    pub gap_ratio_threshold: f64,
    pub gap_spike_zscore: f64,
    pub gap_drift_r_squared: f64,
    pub gap_fragmentation_ratio: f64,
}

impl Default for GapThresholds {
    fn default() -> Self {
        Self {
            gap_ratio_threshold: 0.05,
            gap_spike_zscore: 2.0,
            gap_drift_r_squared: 0.6,
            gap_fragmentation_ratio: 0.3,
        }
    }
}

/// The classification of a finding about the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapClass {
    /// The gap rose for a short time.
    TransientSpike,
    /// The gap grows steadily.
    PersistentDrift,
    /// The allocator reserves much more memory than is allocated.
    FragmentationLike,
}

stormlog_format::names!(GapClass {
    TransientSpike => "transient_spike",
    PersistentDrift => "persistent_drift",
    FragmentationLike => "fragmentation_like",
});

/// A number in the evidence of a finding about the gap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Number {
    /// A whole number.
    Count(usize),
    /// A floating-point number.
    Real(f64),
}

/// A finding about the gap between used and reserved memory.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GapFinding {
    /// The classification of the gap.
    #[serde(rename = "classification")]
    pub class: GapClass,
    /// The severity of the finding: critical or warning.
    pub severity: Severity,
    /// Confidence of the finding, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub confidence: f64,
    /// The numbers behind the finding, with their names, in order.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<String, Number>")]
    pub evidence: Vec<(&'static str, Number)>,
    /// One sentence that describes the finding.
    pub description: String,
    /// The index of the event that shows the finding best.
    #[serde(skip)]
    pub place: usize,
    /// The timestamp of the event that shows the finding best.
    #[serde(rename = "evidence_timestamp_ns")]
    pub timestamp_ns: i64,
}

/// The samples of the gap, in the order of the events they come from.
struct Series {
    places: Vec<usize>,
    times_ns: Vec<i64>,
    gaps: Vec<f64>,
    /// For each sample with known allocated bytes and known, non-zero reserved bytes, its index in
    /// the series and the share of the reserved bytes that is not allocated.
    fragmentation: Vec<(usize, f64)>,
}

/// Minimum number of samples for any finding about the gap.
const FEWEST: usize = 3;
/// Minimum number of samples for a finding about drift of the gap.
const FEWEST_FOR_DRIFT: usize = 5;

/// Whether any sample has a gap that is large enough for [`analyze`] to report a finding. The order
/// of the events does not matter, so they are read in memory order, which is faster.
pub fn is_remarkable(events: &Events, thresholds: &GapThresholds) -> bool {
    events.of_type_in_memory(is_sample).any(|(_, event, _)| {
        share_of_device(event).is_some_and(|(_, share)| share >= thresholds.gap_ratio_threshold)
    })
}

/// The findings about the gap, the most severe first. The function `format_memory` formats a number
/// of bytes for descriptions.
pub fn analyze(
    events: &Events,
    thresholds: &GapThresholds,
    format_memory: &dyn Fn(i64) -> String,
) -> Vec<GapFinding> {
    // The cheap check comes first: most runs have no notable gap, and for them no series is
    // collected.
    if !is_remarkable(events, thresholds) {
        return Vec::new();
    }
    let series = Series::of(events);
    if series.gaps.len() < FEWEST {
        return Vec::new();
    }
    let spikes = series.spikes(thresholds.gap_spike_zscore);
    let drift = series.drift(thresholds.gap_drift_r_squared, format_memory);
    let fragmentation = series.fragmented(thresholds.gap_fragmentation_ratio);
    let mut findings: Vec<GapFinding> = [spikes, drift, fragmentation]
        .into_iter()
        .flatten()
        .collect();
    findings
        .sort_by(|a, b| (b.severity.cmp(&a.severity)).then(b.confidence.total_cmp(&a.confidence)));
    findings
}

impl Series {
    fn of(events: &Events) -> Self {
        let mut series = Self {
            places: Vec::new(),
            times_ns: Vec::new(),
            gaps: Vec::new(),
            fragmentation: Vec::new(),
        };
        for (index, event, _) in events.of_type(is_sample) {
            let Some((gap, _)) = share_of_device(event) else {
                continue;
            };
            if let Some(ratio) = fragmentation(event) {
                series.fragmentation.push((series.gaps.len(), ratio));
            }
            series.places.push(index);
            series.times_ns.push(event.timestamp_ns());
            series.gaps.push(gap);
        }
        series
    }

    fn spikes(&self, threshold: f64) -> Option<GapFinding> {
        let (mean, deviation) = (mean(&self.gaps), sample_deviation(&self.gaps));
        if deviation == 0.0 {
            return None;
        }
        let score = |gap: &f64| (gap - mean) / deviation;
        let count = self
            .gaps
            .iter()
            .filter(|gap| score(gap) > threshold)
            .count();
        if count == 0 {
            return None;
        }
        let (at, largest) = first_largest(self.gaps.iter().copied())?;
        let top = score(&largest);
        let round = |value: f64, digits| Number::Real(rounding::python(value, digits));
        Some(self.finding(
            GapClass::TransientSpike,
            top > threshold * 2.0,
            rounding::python((top / (threshold * 3.0)).min(1.0), 3),
            vec![
                ("spike_count", Number::Count(count)),
                ("max_gap_bytes", Number::Real(largest)),
                ("max_zscore", round(top, 3)),
                ("mean_gap_bytes", round(mean, 1)),
                ("std_gap_bytes", round(deviation, 1)),
            ],
            format!(
                "Detected {count} transient spike(s) in the device-vs-allocator gap \
                 (max z-score {top:.1})."
            ),
            at,
        ))
    }

    fn drift(&self, threshold: f64, format_memory: &dyn Fn(i64) -> String) -> Option<GapFinding> {
        if self.gaps.len() < FEWEST_FOR_DRIFT {
            return None;
        }
        let first_ns = *self.times_ns.first()?;
        let elapsed: Vec<f64> = self
            .times_ns
            .iter()
            .map(|at| at.saturating_sub(first_ns) as f64)
            .collect();
        // When all samples have equal timestamps, no slope can be fitted, so there is no drift.
        let line = fit(&elapsed, &self.gaps)?;
        let r_squared = line.r * line.r;
        if line.slope <= 0.0 || r_squared < threshold {
            return None;
        }
        let per_second = line.slope * 1e9;
        let round = |value: f64, digits| Number::Real(rounding::numpy(value, digits));
        Some(self.finding(
            GapClass::PersistentDrift,
            r_squared > 0.85,
            rounding::numpy(r_squared.min(1.0), 3),
            vec![
                ("slope_bytes_per_sec", round(per_second, 1)),
                ("r_squared", round(r_squared, 4)),
                ("p_value", round(line.p_value, 6)),
                ("gap_start_bytes", round(*self.gaps.first()?, 1)),
                ("gap_end_bytes", round(*self.gaps.last()?, 1)),
            ],
            format!(
                "Device-vs-allocator gap is drifting upward at {}/s (R²={r_squared:.2}).",
                format_memory(whole(per_second))
            ),
            self.gaps.len() - 1,
        ))
    }

    fn fragmented(&self, threshold: f64) -> Option<GapFinding> {
        let ratios: Vec<f64> = self.fragmentation.iter().map(|(_, ratio)| *ratio).collect();
        if ratios.is_empty() {
            return None;
        }
        let average = mean(&ratios);
        if average < threshold {
            return None;
        }
        let (at, largest) = first_largest(ratios.iter().copied())?;
        let round = |value: f64, digits| Number::Real(rounding::python(value, digits));
        Some(self.finding(
            GapClass::FragmentationLike,
            average > 0.5,
            rounding::python((average / 0.6).min(1.0), 3),
            vec![
                ("avg_fragmentation_ratio", round(average, 4)),
                ("max_fragmentation_ratio", round(largest, 4)),
                ("avg_gap_bytes", round(mean(&self.gaps), 1)),
                ("sample_count", Number::Count(ratios.len())),
            ],
            format!(
                "Allocator fragmentation averaging {:.0}% suggests reserved-but-unused memory is \
                 inflating the device footprint.",
                average * 100.0
            ),
            self.fragmentation[at].0,
        ))
    }

    fn finding(
        &self,
        class: GapClass,
        is_critical: bool,
        confidence: f64,
        evidence: Vec<(&'static str, Number)>,
        description: String,
        at: usize,
    ) -> GapFinding {
        GapFinding {
            class,
            severity: if is_critical {
                Severity::Critical
            } else {
                Severity::Warning
            },
            confidence,
            evidence,
            description,
            place: self.places[at],
            timestamp_ns: self.times_ns[at],
        }
    }
}

/// The gap of an event in bytes, and as a share of the device. The share is never negative.
pub fn share_of_device(event: EventRef<'_>) -> Option<(f64, f64)> {
    let (gap, total) = (device_gap(event)? as f64, device_total(event)? as f64);
    Some((gap, (gap / total).abs()))
}

fn fragmentation(event: EventRef<'_>) -> Option<f64> {
    let (allocated, reserved) = (event.allocated_bytes()?, event.reserved_bytes()?);
    let unused = reserved.saturating_sub(allocated).max(0);
    (reserved != 0).then(|| unused as f64 / reserved as f64)
}

/// The index of the largest value and the value; of equal values, the first counts.
fn first_largest(values: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    values
        .enumerate()
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}
