//! `transient_spike`: allocated or hidden memory rises above its normal peak for two samples or a
//! little longer, and falls back.

mod company;
mod excursion;
mod rhythm;

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::signals::Signals;
use super::evidence::{Channel, Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use company::Company;
use excursion::Excursion;
use std::collections::BTreeMap;

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::TransientSpike,
    title: "Transient spike",
    noun: "spike",
    label: "spike",
    resource: Judged::Device,
    is_growth: false,
    draws_end: true,
    formerly: None,
    check: |context| context.of_tracks(check),
};

/// The peak of an ordinary step lasts for at most this share of the step's samples.
const PEAK_OF_STEP: f64 = 0.3;
/// An excursion is a plateau when its samples differ by at most this share of its height. For an
/// excursion of two samples the lower limit `MAX_PAIR_RANGE` applies, because two samples may be
/// peaks of ordinary steps.
const MAX_PLATEAU_RANGE: f64 = 0.35;
const MAX_PAIR_RANGE: f64 = 0.08;
/// Largest difference between the samples of a plateau in runs with several ranks, as a share of
/// its height. This limit is lower than for one rank, because with more ranks it happens more often
/// that neighbouring samples all fall on high peaks of ordinary steps.
const MAX_PLATEAU_RANGE_AMONG_RANKS: f64 = 0.15;
/// A record is an excursion above the memory that the allocator had reserved before the excursion.
/// The samples of a record differ by at most this share of its height; samples that differ by more
/// belong to ordinary steps.
const MAX_RECORD_RANGE: f64 = 0.6;

/// A spike, and the channel (allocated or hidden memory) in which it was found.
type Spike = (Channel, Excursion);

/// Checks every rank for spikes: short rises of allocated or hidden memory above its normal peak.
fn check(evidence: &Evidence) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    let recorded = draft::ranks(evidence).len();
    let max_range = if recorded > 1 {
        MAX_PLATEAU_RANGE_AMONG_RANKS
    } else {
        MAX_PLATEAU_RANGE
    };
    let mut found: Vec<(&Subject, Vec<Spike>)> = evidence
        .subjects
        .iter()
        .map(|subject| (subject, spikes_of(subject, max_range)))
        .filter(|(_, spikes)| !spikes.is_empty())
        .collect();
    let mut sessions: BTreeMap<u32, usize> = BTreeMap::new();
    for (subject, _) in &found {
        *sessions.entry(subject.signals.track.rank).or_default() += 1;
    }
    // Excursions that recur after a restart, or happen on nearly all ranks, are part of the program
    // and not reported.
    if recorded > 2 && draft::is_run_wide(sessions.len(), recorded) {
        return Answer::Clear;
    }
    found.retain(|(subject, _)| sessions.get(&subject.signals.track.rank) == Some(&1));
    if recorded > 2 && !found.is_empty() {
        let company = Company::of(evidence);
        for (subject, spikes) in &mut found {
            spikes.retain(|(channel, spike)| !company.shares(subject, *channel, spike));
        }
    }
    let findings = found.iter().flat_map(|(subject, spikes)| {
        spikes
            .iter()
            .map(|(channel, spike)| describe(subject, *channel, spike))
    });
    Answer::from_findings(findings.collect())
}

fn spikes_of(subject: &Subject, max_range: f64) -> Vec<Spike> {
    let signals = &subject.signals;
    let of = |channel| excursion::find(signals, channel, subject.course(channel));
    // Samples at step ends cannot show excursions within steps, so allocated memory is not
    // searched.
    let mut allocated = if signals.is_stepped {
        Vec::new()
    } else {
        of(Channel::Allocated)
    };
    let are_records = are_records(&allocated, signals);
    let period = signals.allocated_floor.period;
    allocated.retain(|spike| is_no_step(spike, are_records, period, max_range));
    let mut hidden = of(Channel::Hidden);
    hidden.retain(|spike| !allocated.iter().any(|other| other.overlaps(spike)));
    let named = |channel, spikes: Vec<Excursion>| spikes.into_iter().map(move |s| (channel, s));
    named(Channel::Allocated, allocated)
        .chain(named(Channel::Hidden, hidden))
        .collect()
}

/// Whether excursions of allocated memory are records: they rise above the memory that the
/// allocator had reserved before the first of them. Reserved memory covers the normal peaks,
/// including those between samples, so ordinary steps hardly ever rise above it.
fn are_records(spikes: &[Excursion], signals: &Signals) -> bool {
    let Some(first) = spikes.first() else {
        return false;
    };
    let before = signals.allocated.index_at(first.from);
    let held = signals.reserved[..before]
        .iter()
        .rev()
        .copied()
        .find(|bytes| bytes.is_finite());
    let lowest = spikes.iter().map(|s| s.level).fold(f64::INFINITY, f64::min);
    held.is_some_and(|held| lowest > held)
}

/// Whether an excursion is more than the peak of a large step: whether it is a plateau, or a record
/// that lasts longer than the peak of a step.
fn is_no_step(spike: &Excursion, is_record: bool, period: f64, max_range: f64) -> bool {
    let outlasts = spike.samples as f64 >= PEAK_OF_STEP * period;
    let unevenness = spike.range / spike.height;
    let is_plateau = match spike.samples {
        ..=2 => unevenness <= MAX_PAIR_RANGE && (is_record || outlasts),
        _ => unevenness <= max_range,
    };
    is_plateau || (is_record && outlasts && unevenness <= MAX_RECORD_RANGE)
}

fn describe(subject: &Subject, channel: Channel, spike: &Excursion) -> Finding {
    let signals = &subject.signals;
    let share = spike.height / signals.scale;
    let mut finding = draft::finding(Kind::TransientSpike, Severity::Info, subject);
    finding.onset_ns = Some(signals.ns(spike.from));
    finding.end_ns = Some(signals.ns(spike.to));
    finding.magnitude_bytes = Some(draft::whole(spike.height));
    finding.phase = signals.phase_at(spike.from);
    finding.confidence = confidence::of_spike(spike.samples, spike.range / spike.height);
    finding.evidence = vec![
        ("share_of_device", share),
        ("samples", spike.samples as f64),
        ("level_bytes", spike.level),
        ("unevenness", spike.range / spike.height),
    ];
    let what = match channel {
        Channel::Allocated => "Allocated memory",
        Channel::Hidden => "Device memory outside the allocator",
    };
    finding.size_words = format!(
        "+{} at {} for {}, then freed",
        words::bytes(spike.height),
        subject.since(spike.from),
        words::duration(spike.to - spike.from + signals.interval),
    );
    finding.explanation = format!(
        "{what} rose {height} ({share} of the {medium}) above its normal peak for {duration} and \
         fell back",
        height = words::bytes(spike.height),
        share = words::percent(share),
        medium = subject.medium(),
        duration = words::duration(spike.to - spike.from + signals.interval),
    );
    finding.advice = match channel {
        Channel::Allocated => {
            "Look for what ran only at that time: an unusually long batch, an extra forward pass, \
             a metric or checkpoint that gathers tensors on the device; cap the batch by its \
             tokens, move the extra work to the CPU or split it"
        }
        Channel::Hidden => {
            "Look for what else used the device at that time: another process, a library that took \
             a workspace, a collective on a new group; list the processes on the device and limit \
             workspaces, for instance with CUBLAS_WORKSPACE_CONFIG"
        }
    }
    .into();
    finding
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{Sketch, a_rank, gib, run_of, seconds_since_start};
    use super::*;

    fn onsets_on(sketch: Sketch) -> Vec<i64> {
        let answer = check(&Evidence::of(&run_of([sketch])));
        answer
            .findings()
            .iter()
            .map(|f| seconds_since_start(f.onset_ns))
            .collect()
    }

    #[test]
    fn finds_spikes_to_the_sample() {
        let sketch = a_rank(0).spikes(gib(4), 181, 4).spikes(gib(6), 333, 3);
        assert_eq!(onsets_on(sketch), vec![181, 333]);
        assert_eq!(
            onsets_on(a_rank(0).hidden_spikes(gib(3), 250, 3)),
            vec![250]
        );
    }

    #[test]
    fn evaluations_come_in_a_rhythm() {
        let sketch = (1..8).fold(a_rank(0), |s, k| s.spikes(gib(5), k * 50, 5));
        assert_eq!(onsets_on(sketch), Vec::<i64>::new());
    }

    #[test]
    fn a_spike_among_evaluations_is_found() {
        let sketch = (1..8).fold(a_rank(0), |s, k| s.spikes(gib(5), k * 50, 5));
        assert_eq!(onsets_on(sketch.spikes(gib(5), 225, 4)), vec![225]);
    }

    #[test]
    fn marked_phases_are_ordinary() {
        let sketch = a_rank(0)
            .spikes(gib(5), 250, 6)
            .marks_phase("evaluation", 249, 257);
        assert_eq!(onsets_on(sketch), Vec::<i64>::new());
    }

    #[test]
    fn what_is_too_long_too_low_too_early_or_not_over_is_no_spike() {
        assert_eq!(
            onsets_on(a_rank(0).spikes(gib(5), 200, 40)),
            Vec::<i64>::new()
        );
        assert_eq!(
            onsets_on(a_rank(0).spikes(gib(1), 200, 4)),
            Vec::<i64>::new()
        );
        assert_eq!(
            onsets_on(a_rank(0).spikes(gib(5), 70, 4)),
            Vec::<i64>::new()
        );
        assert_eq!(
            onsets_on(a_rank(0).spikes(gib(5), 396, 4)),
            Vec::<i64>::new()
        );
    }

    #[test]
    fn what_all_ranks_do_is_the_program() {
        let run = run_of((0..4).map(|rank| a_rank(rank).spikes(gib(5), 250, 5)));
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
    }

    #[test]
    fn a_spike_on_top_of_a_leak_is_found() {
        let sketch = a_rank(0).grows(gib(1) / 50, 120).spikes(gib(4), 300, 4);
        assert_eq!(onsets_on(sketch), vec![300]);
    }
}
