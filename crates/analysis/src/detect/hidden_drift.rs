//! `hidden_drift`: memory in use outside the framework's allocator keeps growing, and still grows
//! at the end of the run.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::{Channel, Evidence};
use super::finding::Kind;
use super::growth::findings::{Wording, report_growth};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::HiddenDrift,
    title: "Hidden drift",
    noun: "hidden memory leak",
    label: "hidden memory growth",
    resource: Judged::Device,
    is_growth: true,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

const WORDING: Wording = Wording {
    kind: Kind::HiddenDrift,
    verb: "loses",
    of: " outside the allocator",
    what: "hidden memory",
    advice: |_| {
        "The framework's allocator does not know of this memory: look for communicators, \
             streams or graphs created again and again, libraries that allocate for themselves, \
             and other processes on the device (nvidia-smi lists them); NCCL_DEBUG=INFO shows \
             what the collectives allocate"
    },
    advice_on_host: "The allocator does not know of this memory: look for native libraries that \
                     allocate for themselves, memory maps and threads created again and again",
};

/// Checks every rank for growth of hidden memory (bytes in use outside the framework's allocator)
/// up to the end of the run.
fn check(evidence: &Evidence) -> Answer {
    report_growth(evidence, Channel::Hidden, &WORDING)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;

    #[test]
    fn finds_growth_outside_the_allocator() {
        let run = run_of([a_rank(0).hidden_grows(mib(4), 200)]);
        let answer = check(&Evidence::of(&run));
        let [drift] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert!(
            (195..=215).contains(&seconds_since_start(drift.onset_ns)),
            "{drift:?}"
        );
    }

    #[test]
    fn a_leak_inside_the_allocator_is_no_drift() {
        let run = run_of([a_rank(0).grows(mib(8), 160)]);
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
    }

    #[test]
    fn a_neighbour_on_the_device_is_no_drift() {
        let mut run = run_of([a_rank(0).hidden_grows(mib(4), 200)]);
        let alone = run_of([a_rank(0)]);
        let own = alone.tracks[0].used.clone();
        run.tracks[0].own = own;
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
        // When the memory of the process itself is known only in some samples, it is ignored, and
        // the use of the whole device counts in every sample. Mixing the two would look like jumps.
        let now_and_then = (0..400).map(|sample| Some(mib(1)).filter(|_| sample % 2 == 0));
        run.tracks[0].own = now_and_then.collect();
        assert_eq!(check(&Evidence::of(&run)).findings().len(), 1);
    }

    #[test]
    fn a_jump_is_no_drift() {
        let run = run_of([a_rank(0).hidden_jumps(gib(3), 200)]);
        assert_eq!(check(&Evidence::of(&run)), Answer::Clear);
    }
}
