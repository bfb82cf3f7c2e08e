//! What leak and drift have in common: findings about a floor that keeps growing.

use super::evidence::{Channel, Evidence, Subject};
use super::finding::{Finding, Kind, Severity, Verdict};
use super::growth::{Growth, Strength};
use super::{confidence, outlook, report, words};

/// What tells a leak from a drift.
#[derive(Debug)]
pub(super) struct Wording {
    pub(super) kind: Kind,
    /// What the subject does, and the words after the rate.
    pub(super) verb: &'static str,
    pub(super) of: &'static str,
    /// What has grown.
    pub(super) what: &'static str,
    pub(super) advice: &'static str,
    /// The same for the memory of a process on the host.
    pub(super) advice_on_host: &'static str,
}

/// A finding for every rank on which the channel grows, or one for all.
pub(super) fn check(evidence: &Evidence, channel: Channel, wording: &Wording) -> Verdict {
    if evidence.too_short() {
        return Verdict::TooShort;
    }
    let found = evidence.subjects.iter().filter_map(|subject| {
        subject
            .course(channel)
            .growth
            .map(|growth| describe(subject, &growth, wording, evidence.has_ranks))
    });
    Verdict::from_findings(report::per_rank_or_run(evidence, found.collect()))
}

/// Time until a device is full beyond which growth is only worth a note.
const FAR_AHEAD_S: f64 = 30.0 * 86_400.0;

/// How much growth matters: a program that ended by itself may have been filling a cache.
fn severity(subject: &Subject, growth: &Growth, time_to_full_s: Option<f64>) -> Severity {
    let is_far_ahead = time_to_full_s.is_some_and(|left| left > FAR_AHEAD_S);
    if growth.strength == Strength::Weak || (is_far_ahead && subject.end.is_normal()) {
        Severity::Info
    } else {
        Severity::Warning
    }
}

fn describe(subject: &Subject, growth: &Growth, wording: &Wording, has_ranks: bool) -> Finding {
    let signals = &subject.signals;
    let outlook = outlook::of(subject).map(|outlook| outlook.time_to_full_s);
    let severity = severity(subject, growth, outlook);
    let mut finding = report::finding(wording.kind, severity, subject);
    finding.onset_ns = Some(signals.ns(growth.onset));
    finding.end_ns = Some(signals.ns(signals.end));
    finding.magnitude_bytes = Some(report::whole(growth.grown));
    finding.rate_bytes_per_s = Some(growth.rate);
    finding.time_to_full_s = outlook;
    finding.phase = signals.phase_at(growth.onset);
    finding.confidence = confidence_of(growth, signals.scale);
    finding.evidence = vec![
        ("share_of_device", growth.grown / signals.scale),
        ("signal_to_noise", growth.signal_to_noise),
        ("share_given_back", growth.given_back),
        ("share_unexplained", growth.unexplained),
        ("late_pace_of_expected", growth.late_pace),
        ("log_odds_of_samples", growth.odds),
    ];
    let steps = signals.steps_since(growth.onset);
    let per_step = steps.map(|steps| growth.grown / steps);
    if let (Some(steps), Some(per_step)) = (steps, per_step) {
        finding
            .evidence
            .extend([("steps", steps), ("bytes_per_step", per_step)]);
    }
    let per_step = per_step.map_or_else(String::new, |bytes| {
        format!(" (+{} per step)", words::bytes(bytes))
    });
    let (name, since) = (subject.name(has_ranks), subject.since(growth.onset));
    let (rate, grown) = (words::rate(growth.rate), words::bytes(growth.grown));
    let full = full_in(subject, outlook);
    let Wording { verb, of, what, .. } = wording;
    finding.explanation = if growth.strength == Strength::Weak {
        format!(
            "{name}: {what} grew by {grown} up to the end ({rate}{per_step}{of} since {since}), by a \
             leak, a load or a cache about to fill up{full}"
        )
    } else {
        format!(
            "{name} {verb} {rate}{per_step}{of} since {since}: {what} has grown by {grown}{full}"
        )
    };
    let advice = if subject.is_host() {
        wording.advice_on_host
    } else {
        wording.advice
    };
    advice.clone_into(&mut finding.advice);
    finding
}

/// When the device is full, as the end of a sentence.
fn full_in(subject: &Subject, time_to_full_s: Option<f64>) -> String {
    let Some(left) = time_to_full_s.filter(|_| !subject.end.is_out_of_memory()) else {
        return String::new();
    };
    let left = words::duration(left);
    if subject.end.may_go_on() {
        format!("; full in about {left}")
    } else {
        format!("; at this rate full {left} later")
    }
}

/// How sure growth is.
pub(super) fn confidence_of(growth: &Growth, scale: f64) -> f64 {
    let share_of_device = growth.grown / scale;
    confidence::of_growth(growth.unexplained, share_of_device)
}
