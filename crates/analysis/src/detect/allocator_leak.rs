//! `allocator_leak`: the floor of allocated memory keeps growing, and still grows at the end of the
//! run.

use super::answer::Answer;
use super::detector::{Detector, Judged};
use super::evidence::{Channel, Evidence};
use super::finding::Kind;
use super::growth::findings::{Wording, report_growth};
use crate::timeline::Framework;

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::AllocatorLeak,
    title: "Allocator leak",
    noun: "leak",
    label: "leak",
    resource: Judged::Device,
    is_growth: true,
    draws_end: false,
    formerly: None,
    check: |context| context.of_tracks(check),
};

const WORDING: Wording = Wording {
    kind: Kind::AllocatorLeak,
    verb: "leaks",
    of: "",
    what: "memory held between steps",
    advice: |framework| match framework {
        Framework::Torch => {
            "Look for tensors kept across steps: losses or outputs summed or appended without \
             detach() or item(), hooks registered again and again, caches and lists that hold graphs"
        }
        Framework::Jax => {
            "Look for arrays kept across steps: states or outputs that are appended to lists, and \
             caches without a bound; keep copies on the host (jax.device_get) or numbers (float)"
        }
        Framework::TensorFlow | Framework::Unknown => {
            "Look for tensors and arrays kept across steps: losses or outputs that are summed or \
             appended, and caches without a bound; keep numbers or copies on the host"
        }
    },
    advice_on_host: "Look for objects kept across steps: results summed or appended, caches \
                     without a bound, data loaders that hold on to their batches",
};

/// Checks on every rank whether the memory that live tensors hold between steps keeps growing.
fn check(evidence: &Evidence) -> Answer {
    report_growth(evidence, Channel::Allocated, &WORDING)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::super::tests::sketch::{a_rank, gib, mib, run_of, seconds_since_start};
    use super::*;
    use crate::timeline::{End, RankEnd, RecordedBy};

    fn answer_on(sketch: super::super::tests::sketch::Sketch) -> Answer {
        check(&Evidence::of(&run_of([sketch])))
    }

    #[test]
    fn finds_even_growth_and_its_onset() {
        let answer = answer_on(a_rank(3).grows(mib(8), 160));
        let [leak] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(leak.rank, Some(3));
        assert!(
            (150..=180).contains(&seconds_since_start(leak.onset_ns)),
            "{leak:?}"
        );
        let grown = leak.magnitude_bytes.unwrap();
        assert!((mib(8 * 220)..mib(8 * 260)).contains(&grown), "{grown}");
        let rate = leak.rate_bytes_per_s.unwrap();
        assert!((rate / 8.4e6 - 1.0).abs() < 0.1, "{rate}");
        assert!(leak.explanation.starts_with("GPU 0 leaks 8.0"));
    }

    #[test]
    fn finds_growth_in_stairs() {
        let answer = answer_on(a_rank(0).grows_in_stairs(mib(12), 120, 25));
        assert_eq!(answer.findings().len(), 1);
    }

    #[test]
    fn garbage_that_is_collected_is_no_leak() {
        assert_eq!(
            answer_on(a_rank(0).collects_garbage(gib(2), 110)),
            Answer::Clear
        );
    }

    #[test]
    fn certain_growth_is_a_leak_however_small_a_share_of_the_device() {
        // 220 samples with a growth of 0.5 MiB each add up to 0.13 % of the device, which is
        // reported.
        let answer = answer_on(a_rank(0).grows(mib(1) / 2, 180));
        assert_eq!(answer.findings().len(), 1);
        // 220 samples with a growth of 0.05 MiB each add less than the random differences between
        // steps, so nothing is reported.
        let answer = answer_on(a_rank(0).grows(mib(1) / 20, 180));
        assert_eq!(answer, Answer::Clear);
    }

    /// The severity of growth in a server that holds 10 GiB from its start, frees what a request
    /// needs, and keeps 1 MiB a second for `seconds` seconds, when the server ended like this.
    fn severity_in_a_server(seconds: i64, end: End) -> Severity {
        let mut run = run_of([a_rank(0).samples(seconds)]);
        let track = &mut run.tracks[0];
        let request = |k: i64| mib(k * 13 % 7 * 40);
        let held = (0..seconds).map(|k| Some(gib(10) + mib(k) + request(k)));
        track.allocated = held.collect();
        track.recorder = RecordedBy::Run;
        run.ends.push(RankEnd {
            rank: 0,
            pid: track.pid,
            at_ns: None,
            end,
        });
        let answer = check(&Evidence::of(&run));
        let [leak] = answer.findings() else {
            panic!("{answer:?}")
        };
        leak.severity
    }

    #[test]
    fn a_server_that_grows_for_hours_is_not_loading() {
        let of = severity_in_a_server;
        assert_eq!(of(600, End::StillRunning), Severity::Info);
        assert_eq!(of(3600, End::StillRunning), Severity::Warning);
        // A program that ended by itself may have collected its results.
        assert_eq!(of(3600, End::Exit { code: Some(0) }), Severity::Info);
    }

    #[test]
    fn a_jump_is_no_leak() {
        assert_eq!(answer_on(a_rank(0).jumps(gib(4), 200)), Answer::Clear);
    }

    #[test]
    fn a_leak_of_all_ranks_is_reported_once() {
        let run = run_of((0..4).map(|rank| a_rank(rank).grows(mib(10), 150)));
        let answer = check(&Evidence::of(&run));
        let [leak] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(leak.rank, None);
        assert!(leak.explanation.contains("4 of 4 recorded ranks"));
    }

    #[test]
    fn a_leak_of_one_rank_is_its_own() {
        let run = run_of([a_rank(0), a_rank(1).grows(mib(10), 150), a_rank(2)]);
        let answer = check(&Evidence::of(&run));
        let [leak] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(leak.rank, Some(1));
    }

    #[test]
    fn the_end_of_training_gives_nothing_back() {
        let mut run = run_of([a_rank(0).grows(mib(10), 150)]);
        let track = &mut run.tracks[0];
        let last = track.t_ns.len() - 10;
        let freed = |i: usize| {
            if i < last {
                track.allocated.get(i)
            } else {
                Some(0)
            }
        };
        track.allocated = (0..track.t_ns.len()).map(freed).collect();
        assert_eq!(check(&Evidence::of(&run)).findings().len(), 1);
    }
}
