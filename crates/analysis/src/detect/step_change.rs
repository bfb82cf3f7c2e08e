//! `step_change`: the floor of allocated or hidden memory jumped upwards once and stayed at the
//! higher level.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::{Channel, Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use super::growth::jump::Jump;

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::StepChange,
    title: "Step change",
    noun: "lasting increase",
    label: "lasting increase",
    resource: Judged::Device,
    is_growth: false,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

/// Checks every rank for a lasting jump of allocated or hidden memory.
fn check(evidence: &Evidence) -> Answer {
    if evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    let found = [Channel::Allocated, Channel::Hidden]
        .into_iter()
        .flat_map(|channel| {
            let jumped = evidence.subjects.iter().filter_map(|subject| {
                subject
                    .course(channel)
                    .jump
                    .map(|jump| describe(subject, channel, &jump))
            });
            draft::per_rank_or_run(evidence, jumped.collect())
        });
    Answer::from_findings(found.collect())
}

fn describe(subject: &Subject, channel: Channel, jump: &Jump) -> Finding {
    let signals = &subject.signals;
    let share = jump.height / signals.scale;
    // When the program ended normally, the jump did no harm, so it is only a note.
    let severity = if subject.end.is_normal() {
        Severity::Info
    } else {
        Severity::Warning
    };
    let mut finding = draft::finding(Kind::StepChange, severity, subject);
    finding.onset_ns = Some(signals.ns(jump.onset));
    finding.magnitude_bytes = Some(draft::whole(jump.height));
    finding.phase = signals.phase_at(jump.onset);
    finding.confidence = confidence::of_jump(jump.odds, jump.signal_to_noise);
    finding.evidence = vec![
        ("share_of_device", share),
        ("signal_to_noise", jump.signal_to_noise),
        ("share_unexplained", jump.unexplained),
        ("log_odds_of_samples", jump.odds),
    ];
    let what = match channel {
        Channel::Allocated => "Memory held between steps",
        Channel::Hidden => "Device memory outside the allocator",
    };
    finding.size_words = format!(
        "+{} at {} of {}, kept for {}",
        words::bytes(jump.height),
        subject.since(jump.onset),
        match channel {
            Channel::Allocated => "memory held between steps",
            Channel::Hidden => "hidden memory",
        },
        words::duration(signals.end - jump.onset),
    );
    finding.explanation = format!(
        "{what} jumped by {height} ({share} of the {medium}) and has stayed at the new level for \
         {duration}",
        height = words::bytes(jump.height),
        share = words::percent(share),
        medium = subject.medium(),
        duration = words::duration(signals.end - jump.onset),
    );
    finding.advice = match channel {
        Channel::Allocated => {
            "See what the program began to keep at that moment: a second copy of the model or \
             the optimizer state, a buffer, an unfrozen layer, a resumed data loader; free what \
             is no longer used, or expect this level from now on"
        }
        Channel::Hidden => {
            "See what took device memory at that moment outside the framework: another process, \
             a new communicator or CUDA graph, a library's workspace; list the processes on the \
             device and close what does not belong there"
        }
    }
    .into();
    finding
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;

    fn answer_on(sketch: Sketch) -> Answer {
        check(&Evidence::of(&run_of([sketch])))
    }

    #[test]
    fn finds_a_jump_of_the_floor() {
        let answer = answer_on(a_rank(0).jumps(gib(2), 230));
        let [step] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert!(
            (224..=238).contains(&seconds_since_start(step.onset_ns)),
            "{step:?}"
        );
        let height = step.magnitude_bytes.unwrap();
        assert!((mib(1900)..mib(2200)).contains(&height), "{height}");
    }

    #[test]
    fn finds_a_jump_of_hidden_memory_to_the_sample() {
        let answer = answer_on(a_rank(0).hidden_jumps(gib(2), 230));
        let [step] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(seconds_since_start(step.onset_ns), 230);
        assert!(
            step.explanation
                .starts_with("Device memory outside the allocator")
        );
    }

    #[test]
    fn finds_both_channels_of_one_rank() {
        let answer = answer_on(a_rank(0).hidden_jumps(gib(2), 230).jumps(gib(3), 280));
        assert_eq!(answer.findings().len(), 2);
    }

    #[test]
    fn downwards_is_no_finding() {
        assert_eq!(answer_on(a_rank(0).jumps(-gib(4), 230)), Answer::Clear);
    }

    #[test]
    fn what_jumped_in_the_warm_up_is_no_finding() {
        assert_eq!(answer_on(a_rank(0).jumps(gib(4), 80)), Answer::Clear);
    }

    #[test]
    fn growth_and_stairs_are_no_jumps() {
        assert_eq!(answer_on(a_rank(0).grows(mib(20), 150)), Answer::Clear);
        assert_eq!(
            answer_on(a_rank(0).grows_in_stairs(mib(60), 120, 28)),
            Answer::Clear
        );
    }
}
