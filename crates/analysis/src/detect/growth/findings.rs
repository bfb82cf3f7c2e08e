//! The common part of the leak and drift detectors: findings about a floor that keeps growing.

use std::fmt::Write as _;

use stormlog_format::Retention;

use super::{Growth, Strength, outlook};
use crate::detect::answer::Answer;
use crate::detect::cause::advice::{self, About};
use crate::detect::cause::{Cause, windows};
use crate::detect::evidence::{Channel, Evidence, Subject};
use crate::detect::finding::line::GrowthSize;
use crate::detect::finding::{Finding, Kind, Severity, confidence, draft, words};
use crate::timeline::Framework;

/// The words in which the findings about a leak and about a drift differ.
#[derive(Debug)]
pub(crate) struct Wording {
    pub(crate) kind: Kind,
    /// The verb before the growth rate in a finding's sentence, for example "leaks".
    pub(crate) verb: &'static str,
    /// The words after the growth rate, for example " outside the allocator"; may be empty.
    pub(crate) of: &'static str,
    /// The noun for the memory that has grown in a finding's sentence, for example "hidden memory".
    pub(crate) what: &'static str,
    /// The advice for a program that uses this framework, where no cause is known.
    pub(crate) advice: fn(Framework) -> &'static str,
    /// The advice for a track that records host memory instead of a device's memory.
    pub(crate) advice_on_host: &'static str,
}

/// Reports every rank on which a channel keeps growing, or the whole run when all ranks grow.
pub(crate) fn report_growth(evidence: &Evidence, channel: Channel, wording: &Wording) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    let found = evidence.subjects.iter().filter_map(|subject| {
        subject
            .course(channel)
            .growth
            .map(|growth| describe(subject, &growth, channel, wording, evidence.has_ranks))
    });
    Answer::from_findings(draft::per_rank_or_run(evidence, found.collect()))
}

/// Growth in a program that ended normally is only a note when the device would fill up later than
/// this many seconds after the last sample.
const FAR_AHEAD_S: f64 = 30.0 * 86_400.0;

/// The severity of growth. Growth is a note when the evidence for it is weak. It is also a note
/// when the program ended normally and would have filled the device only much later (see
/// `FAR_AHEAD_S`), because the program may have been filling a cache, and when what grows has a
/// bound, unless the memory ran out before the bound was reached.
fn severity(
    subject: &Subject,
    growth: &Growth,
    time_to_full_s: Option<f64>,
    about: &About,
) -> Severity {
    let is_far_ahead = time_to_full_s.is_some_and(|left| left > FAR_AHEAD_S);
    let is_bounded = about.keeping.retention == Some(Retention::Bounded);
    if growth.strength == Strength::Weak
        || (is_far_ahead && subject.end.is_normal())
        || (is_bounded && !subject.end.is_out_of_memory())
    {
        Severity::Info
    } else {
        Severity::Warning
    }
}

fn describe(
    subject: &Subject,
    growth: &Growth,
    channel: Channel,
    wording: &Wording,
    has_ranks: bool,
) -> Finding {
    let signals = &subject.signals;
    let outlook = outlook::of(subject).map(|outlook| outlook.time_to_full_s);
    let evidence = signals.track.evidence.as_ref();
    let evidence = evidence.filter(|_| channel == Channel::Allocated);
    let (named, about) = evidence.and_then(windows::cause_of).unzip();
    let about = about.unwrap_or_default();
    let severity = severity(subject, growth, outlook, &about);
    let mut finding = draft::finding(wording.kind, severity, subject);
    finding.onset_ns = Some(signals.ns(growth.onset));
    finding.magnitude_bytes = Some(draft::whole(growth.grown));
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
    let bytes_per_step = draft::add_steps(&mut finding, growth.grown, steps);
    let per_step = words::per_step(bytes_per_step);
    let (name, since) = (subject.name(has_ranks), subject.since(growth.onset));
    let (rate, grown) = (words::rate(growth.rate), words::bytes(growth.grown));
    let full = full_in(subject, outlook);
    let Wording { verb, of, what, .. } = wording;
    finding.cause = named;
    let clause = finding.cause.as_ref().and_then(Cause::clause);
    finding.explanation = if growth.strength == Strength::Weak {
        let clause = clause.map_or_else(String::new, |clause| format!(": {clause}"));
        format!(
            "{name}: {what} grew by {grown} up to the end ({rate}{per_step}{of} since {since}), \
             caused by a leak, by loading data or by a cache that is not full yet{full}{clause}"
        )
    } else if let Some(clause) = clause {
        let pace = bytes_per_step.map_or(rate, |bytes| format!("{} per step", words::bytes(bytes)));
        format!(
            "{name} {verb} {pace}{of}: {clause}; {what} has grown by {grown} since {since}{full}"
        )
    } else {
        format!(
            "{name} {verb} {rate}{per_step}{of} since {since}: {what} has grown by {grown}{full}"
        )
    };
    finding.size_words = GrowthSize {
        bytes_per_step,
        rate_bytes_per_s: growth.rate,
        memory: match (subject.is_host(), channel) {
            (true, _) => "host memory",
            (false, Channel::Hidden) => "hidden memory",
            (false, Channel::Allocated) => "",
        },
        grown_bytes: growth.grown,
        full: outlook
            .filter(|_| !subject.end.is_out_of_memory())
            .map(|seconds| (subject.medium(), seconds)),
        may_go_on: finding.may_go_on,
        excuse: match severity {
            Severity::Info => "may be data that is loaded, or a cache that is not full yet",
            _ => "",
        },
    }
    .words();
    let advice = if subject.is_host() {
        wording.advice_on_host
    } else {
        (wording.advice)(signals.track.framework)
    };
    advice.clone_into(&mut finding.advice);
    let refused = evidence.and_then(|evidence| evidence.reason.as_ref());
    if let Some(reason) = refused.filter(|_| finding.cause.is_none()) {
        let _ = write!(
            finding.advice,
            "; no line is named because no evidence window could be opened: {reason}"
        );
    } else if let Some(advice) = finding.cause.as_ref().and_then(|cause| {
        // Only PyTorch has evidence windows.
        advice::of_holder(cause, &about, Framework::Torch).or_else(|| advice_of(cause))
    }) {
        finding.advice = advice;
    }
    finding
}

/// What to look for when only the line is known that allocates the memory.
fn advice_of(cause: &Cause) -> Option<String> {
    let place = cause.site.as_ref()?.place();
    Some(format!(
        "Look for what keeps the result of {place} alive across steps"
    ))
}

/// The end of a finding's sentence that says when the device is full, such as "; full in about" and
/// a duration. Empty when that time is unknown or the program already ran out of memory.
fn full_in(subject: &Subject, time_to_full_s: Option<f64>) -> String {
    let Some(left) = time_to_full_s.filter(|_| !subject.end.is_out_of_memory()) else {
        return String::new();
    };
    let left = words::duration(left);
    if subject.end.may_go_on() {
        format!("; full in about {left}")
    } else {
        format!("; a longer run would have filled the memory after another {left}")
    }
}

/// The confidence of a finding about growth, 0 to 1; `scale` is the device's size in bytes.
pub(crate) fn confidence_of(growth: &Growth, scale: f64) -> f64 {
    let share_of_device = growth.grown / scale;
    confidence::of_growth(growth.unexplained, share_of_device)
}
