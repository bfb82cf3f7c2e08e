//! Possible problems of a rank: alerts, gaps and collective communication, each with its time and
//! severity.

use crate::gap::{self, GapThresholds};
use crate::phases::{PhaseAttribution, PhaseReplay};
use serde::Serialize;
use stormlog_analysis::detect::Severity;
use stormlog_analysis::{EventRef, Events};
use stormlog_format::{EventType, Text, byte_text};

use crate::collective::{CollectiveAttribution, CollectiveClass};

/// The severity of a gap that is attributed to collective communication.
fn severity_of(class: CollectiveClass) -> Severity {
    match class {
        CollectiveClass::Confident => Severity::Critical,
        CollectiveClass::Likely => Severity::Warning,
        CollectiveClass::Suspect => Severity::Info,
    }
}

/// A possible problem of a rank: an alert, a large gap, or collective communication.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Candidate {
    pub rank: i64,
    pub severity: Severity,
    pub timestamp_ns: i64,
    pub signal: String,
    pub details: Text,
    pub confidence: Option<f64>,
    pub reason_codes: Vec<&'static str>,
    #[serde(rename = "phase_path")]
    pub phase: Option<Text>,
}

impl Candidate {
    /// The problem with a description that ends with the phase of the program, if it is known.
    pub(super) fn with_full_details(&self) -> Self {
        let mut full = self.clone();
        if let Some(phase) = &self.phase {
            let parts = [self.details.as_bytes(), b" Phase: ", phase.as_bytes(), b"."];
            full.details = Text::from_bytes(&parts.concat());
        }
        full
    }
}

/// All possible problems of a rank, from its events and samples in order of time and from the gaps
/// attributed to collective communication.
pub(super) fn of_rank(
    rank: i64,
    events: &Events,
    samples: &Events,
    collectives: &[CollectiveAttribution],
    replay: &PhaseReplay,
) -> Vec<Candidate> {
    let mut found = alerts(rank, events, replay);
    found.extend(first_breach(rank, samples, replay));
    for finding in gap::analyze(samples, &GapThresholds::default(), &byte_text) {
        let phase = samples
            .get(finding.place)
            .and_then(|event| replay.resolve_event(event));
        found.push(Candidate {
            severity: finding.severity,
            timestamp_ns: finding.timestamp_ns,
            signal: format!("gap:{}", finding.class.as_str()),
            details: finding.description.into(),
            phase: label(phase.as_ref()),
            ..nothing(rank)
        });
    }
    let first_sample_ns = samples.get(0).map_or(0, EventRef::timestamp_ns);
    let of_this_rank = collectives.iter().filter(|found| found.rank == rank);
    found.extend(of_this_rank.map(|found| collective(found, first_sample_ns)));
    found
}

fn alerts(rank: i64, events: &Events, replay: &PhaseReplay) -> Vec<Candidate> {
    let severity = |event_type: &[u8]| match EventType::of(event_type)? {
        EventType::Warning => Some(Severity::Warning),
        EventType::Critical | EventType::Error => Some(Severity::Critical),
        _ => None,
    };
    let alert = |event: EventRef<'_>| {
        let severity = severity(event.event_type())?;
        let context = event.context().filter(|context| !context.is_empty());
        let kind = String::from_utf8_lossy(event.event_type());
        Some(Candidate {
            severity,
            timestamp_ns: event.timestamp_ns(),
            signal: format!("alert:{kind}"),
            details: context.map_or_else(|| "Alert event".into(), Text::from_bytes),
            phase: label(replay.resolve_event(event).as_ref()),
            ..nothing(rank)
        })
    };
    events.iter().filter_map(alert).collect()
}

/// The first sample of a rank in which the gap, as a share of the device's memory, reaches the
/// default of the threshold `gap_ratio_threshold`.
fn first_breach(rank: i64, samples: &Events, replay: &PhaseReplay) -> Option<Candidate> {
    let threshold = GapThresholds::default().gap_ratio_threshold;
    samples.iter().find_map(|event| {
        let (_, ratio) = gap::share_of_device(event)?;
        (ratio >= threshold).then(|| Candidate {
            severity: Severity::Warning,
            timestamp_ns: event.timestamp_ns(),
            signal: "gap_ratio_breach".into(),
            details: format!("gap ratio {:.1}% exceeded threshold", ratio * 100.0).into(),
            phase: label(replay.resolve_event(event).as_ref()),
            ..nothing(rank)
        })
    })
}

/// Converts an attribution to collective communication into a possible problem. The attribution's
/// time span begins a little before the spike (`interval_padding_ns`). If it begins before the
/// rank's first sample, the problem gets the time of that sample.
fn collective(found: &CollectiveAttribution, first_sample_ns: i64) -> Candidate {
    let reasons: Vec<&'static str> = found.reason_codes.iter().copied().collect();
    Candidate {
        severity: severity_of(found.class),
        timestamp_ns: found.interval_start_ns.max(first_sample_ns),
        signal: format!("collective:{}", found.class.as_str()),
        details: format!(
            "Communication-attributed hidden-memory spike (confidence {:.2}; reasons: {}).",
            found.confidence,
            reasons.join(", ")
        )
        .into(),
        confidence: Some(found.confidence),
        reason_codes: reasons,
        phase: label(found.phase.as_ref()),
        ..nothing(found.rank)
    }
}

fn label(phase: Option<&PhaseAttribution>) -> Option<Text> {
    phase.and_then(PhaseAttribution::label)
}

fn nothing(rank: i64) -> Candidate {
    Candidate {
        rank,
        severity: Severity::Info,
        timestamp_ns: 0,
        signal: String::new(),
        details: Text::default(),
        confidence: None,
        reason_codes: Vec::new(),
        phase: None,
    }
}
