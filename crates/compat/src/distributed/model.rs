//! The table of ranks in the diagnostics tab: one row per rank, with the rank's first possible
//! problem.

use std::collections::{BTreeMap, BTreeSet};

use crate::gap::samples::device_gap;
use crate::phases::PhaseReplay;
use serde::Serialize;
use stormlog_analysis::{EventRef, Events};
use stormlog_format::Text;
use stormlog_format::classify::is_sample;

use super::candidates::{self, Candidate};
use crate::collective::{self, CollectiveConfig};
use crate::cross_rank;

/// Ranks without events are listed only below this number, because a record with a larger world
/// size is not plausible.
const MOST_RANKS: i64 = 1 << 20;

/// A row of the table of ranks. For a rank without samples, the values of the row are unknown.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct RankRow {
    pub rank: i64,
    /// `present` or `missing`.
    pub availability: &'static str,
    pub samples: usize,
    pub allocated_delta_bytes: Option<i64>,
    pub reserved_delta_bytes: Option<i64>,
    pub hidden_gap_latest_bytes: Option<i64>,
    pub hidden_gap_peak_abs_bytes: Option<i64>,
    pub has_anomaly: bool,
    pub first_anomaly_timestamp_ns: Option<i64>,
    pub first_anomaly_signal: Option<String>,
    pub first_anomaly_phase_path: Option<Text>,
}

/// The memory counters of the samples of a rank, in order of time. All lists have the same length.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct RankTimeline {
    pub timestamps_ns: Vec<i64>,
    pub allocated: Vec<Option<i64>>,
    pub reserved: Vec<Option<i64>>,
    pub gap: Vec<Option<i64>>,
}

/// One of the two problems of a run that the diagnostics tab highlights: the earliest, or the most
/// severe.
#[derive(Clone, Debug, Serialize)]
pub struct Indicator {
    /// Which of the two highlighted problems this is: `earliest` or `most_severe`.
    pub kind: &'static str,
    /// The problem that may be the first cause, with its rank and time.
    #[serde(flatten)]
    pub candidate: Candidate,
}

/// The table of the ranks of a run, with their timelines and highlighted problems.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Model {
    pub rows: Vec<RankRow>,
    pub indicators: Vec<Indicator>,
    pub expected_ranks: Vec<i64>,
    pub present_ranks: Vec<i64>,
    pub missing_ranks: Vec<i64>,
    pub timelines: Vec<(i64, RankTimeline)>,
    pub warnings: Vec<String>,
}

/// Makes the table of ranks from the given events, for all ranks or only for the selected ones.
pub fn model(events: &Events, selected: Option<&BTreeSet<i64>>) -> Model {
    if events.is_empty() {
        return Model {
            warnings: vec!["No telemetry events loaded.".into()],
            ..Model::default()
        };
    }
    let mut by_rank: BTreeMap<i64, Vec<EventRef<'_>>> = BTreeMap::new();
    let mut world_sizes = BTreeSet::new();
    for event in events.iter() {
        let origin = event.origin();
        by_rank.entry(origin.rank).or_default().push(event);
        world_sizes.insert(origin.world_size);
    }
    let world_size = world_sizes.last().copied().unwrap_or(1).min(MOST_RANKS);
    let all: BTreeSet<i64> = by_rank.keys().copied().chain(0..world_size).collect();
    let expected_ranks: Vec<i64> = all
        .into_iter()
        .filter(|rank| selected.is_none_or(|selected| selected.contains(rank)))
        .collect();
    let replay = PhaseReplay::of_events(events);
    let resolve = cross_rank::resolver(&replay);
    let collectives = collective::attribute(events, &CollectiveConfig::default(), Some(&resolve));
    let mut model = Model {
        warnings: if world_sizes.len() > 1 {
            vec!["Inconsistent world_size values detected; using max observed world_size.".into()]
        } else {
            Vec::new()
        },
        ..Model::default()
    };
    let mut found: Vec<Candidate> = Vec::new();
    for rank in &expected_ranks {
        if !by_rank.contains_key(rank) {
            model.missing_ranks.push(*rank);
            model.rows.push(RankRow::missing(*rank));
            continue;
        }
        let of_rank = in_time(&events.of_rank(*rank));
        let samples = of_rank.retained(|event| is_sample(event.event_type()));
        let of_rank = candidates::of_rank(*rank, &of_rank, &samples, &collectives, &replay);
        let timeline = RankTimeline::of(&samples);
        model.present_ranks.push(*rank);
        model.rows.push(RankRow::of(*rank, &timeline, &of_rank));
        model.timelines.push((*rank, timeline));
        found.extend(of_rank);
    }
    model.expected_ranks = expected_ranks;
    model.indicators = indicators(&found);
    model
}

/// The events sorted by time; events with equal times keep their order.
fn in_time(events: &Events) -> Events {
    // `merged` returns a single part unchanged and unsorted, so an empty part is added.
    Events::merged(&[&Events::default(), events])
}

/// The earliest problem, and the earliest of the most severe problems. Of several problems with
/// equal times and severities, the first in the list is chosen.
fn indicators(found: &[Candidate]) -> Vec<Indicator> {
    let earliest = found.iter().min_by_key(|one| one.timestamp_ns);
    let worst = found
        .iter()
        .min_by_key(|one| (std::cmp::Reverse(one.severity), one.timestamp_ns));
    let named = [("earliest", earliest), ("most_severe", worst)];
    let indicator = |(kind, candidate): (_, Option<&Candidate>)| {
        let candidate = candidate?.with_full_details();
        Some(Indicator { kind, candidate })
    };
    named.into_iter().filter_map(indicator).collect()
}

impl RankRow {
    fn missing(rank: i64) -> Self {
        let nothing = Self::of(rank, &RankTimeline::default(), &[]);
        Self {
            availability: "missing",
            ..nothing
        }
    }

    fn of(rank: i64, timeline: &RankTimeline, found: &[Candidate]) -> Self {
        let first = found.iter().min_by_key(|one| one.timestamp_ns);
        let latest = timeline.gap.last().copied();
        let known = timeline.gap.iter().flatten();
        let peak = known.map(|gap| gap.saturating_abs()).max();
        Self {
            rank,
            availability: "present",
            samples: timeline.timestamps_ns.len(),
            allocated_delta_bytes: delta(&timeline.allocated),
            reserved_delta_bytes: delta(&timeline.reserved),
            hidden_gap_latest_bytes: latest.unwrap_or(Some(0)),
            hidden_gap_peak_abs_bytes: if timeline.gap.is_empty() {
                Some(0)
            } else {
                peak
            },
            has_anomaly: first.is_some(),
            first_anomaly_timestamp_ns: first.map(|first| first.timestamp_ns),
            first_anomaly_signal: first.map(|first| first.signal.clone()),
            first_anomaly_phase_path: first.and_then(|first| first.phase.clone()),
        }
    }
}

/// The last value minus the first value: `None` when one of the two is unknown, 0 when the list is
/// empty.
fn delta(values: &[Option<i64>]) -> Option<i64> {
    match (values.first(), values.last()) {
        (Some(first), Some(last)) => Some(last.as_ref()?.saturating_sub(first.as_ref().copied()?)),
        _ => Some(0),
    }
}

impl RankTimeline {
    fn of(samples: &Events) -> Self {
        let mut timeline = Self::default();
        for sample in samples.iter() {
            timeline.timestamps_ns.push(sample.timestamp_ns());
            timeline.allocated.push(sample.allocated_bytes());
            timeline.reserved.push(sample.reserved_bytes());
            timeline.gap.push(device_gap(sample));
        }
        timeline
    }
}

#[cfg(test)]
mod tests {
    use stormlog_analysis::detect::Severity;
    use stormlog_format::json::map_of;
    use stormlog_format::{Map, Value};

    use super::*;

    fn keys(fields: &Map) -> Vec<String> {
        fields.iter().map(|(key, _)| key.to_string()).collect()
    }

    #[test]
    fn rows_and_indicators_have_the_fields_of_python() {
        let row = map_of(&RankRow::missing(3));
        assert_eq!(
            keys(&row),
            [
                "rank",
                "availability",
                "samples",
                "allocated_delta_bytes",
                "reserved_delta_bytes",
                "hidden_gap_latest_bytes",
                "hidden_gap_peak_abs_bytes",
                "has_anomaly",
                "first_anomaly_timestamp_ns",
                "first_anomaly_signal",
                "first_anomaly_phase_path",
            ]
        );
        assert_eq!(row.get("availability"), Some(&Value::text("missing")));
        let problem = Candidate {
            rank: 1,
            severity: Severity::Warning,
            timestamp_ns: 5,
            signal: "gap:drift".into(),
            details: "It grows.".into(),
            confidence: Some(0.5),
            reason_codes: vec!["drift"],
            phase: Some("train".into()),
        };
        let [earliest, worst] = &indicators(&[problem])[..] else {
            panic!("one problem is both the earliest and the most severe");
        };
        assert_eq!((earliest.kind, worst.kind), ("earliest", "most_severe"));
        let fields = map_of(earliest);
        assert_eq!(
            keys(&fields),
            [
                "kind",
                "rank",
                "severity",
                "timestamp_ns",
                "signal",
                "details",
                "confidence",
                "reason_codes",
                "phase_path",
            ]
        );
        assert_eq!(fields.get("severity"), Some(&Value::text("warning")));
        assert_eq!(fields.get("phase_path"), Some(&Value::text("train")));
        let details = Value::text("It grows. Phase: train.");
        assert_eq!(fields.get("details"), Some(&details));
        let reasons = Value::List(vec![Value::text("drift")]);
        assert_eq!(fields.get("reason_codes"), Some(&reasons));
    }
}
