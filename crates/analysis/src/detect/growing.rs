//! What leak and drift have in common: findings about a floor that keeps growing.

use super::evidence::{Channel, Evidence, Subject};
use super::finding::{Finding, Kind, Severity, Verdict};
use super::growth::Growth;
use super::{confidence, outlook, report, words};

/// What tells a leak from a drift.
#[derive(Debug)]
pub(super) struct Wording {
    pub(super) kind: Kind,
    /// The subject of the sentence.
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
            .map(|growth| describe(subject, &growth, wording))
    });
    Verdict::from_findings(report::per_rank_or_run(evidence, found.collect()))
}

fn describe(subject: &Subject, growth: &Growth, wording: &Wording) -> Finding {
    let signals = &subject.signals;
    let mut finding = report::finding(wording.kind, Severity::Warning, subject);
    finding.onset_ns = Some(signals.ns(growth.onset));
    finding.end_ns = Some(signals.ns(signals.end));
    finding.magnitude_bytes = Some(report::whole(growth.grown));
    finding.rate_bytes_per_s = Some(growth.rate);
    finding.time_to_full_s = outlook::of(subject).map(|outlook| outlook.time_to_full_s);
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
    finding.explanation = format!(
        "{} has grown by {} ({} of the {}) over the last {} and still grows by {}",
        wording.what,
        words::bytes(growth.grown),
        words::percent(growth.grown / signals.scale),
        subject.medium(),
        words::duration(signals.end - growth.onset),
        words::rate(growth.rate),
    );
    let advice = if subject.is_host() {
        wording.advice_on_host
    } else {
        wording.advice
    };
    advice.clone_into(&mut finding.advice);
    finding
}

/// How sure growth is.
pub(super) fn confidence_of(growth: &Growth, scale: f64) -> f64 {
    let share_of_device = growth.grown / scale;
    confidence::of_growth(growth.unexplained, share_of_device)
}
