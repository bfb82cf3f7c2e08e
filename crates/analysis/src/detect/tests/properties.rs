//! Property tests: for any input, a diagnosis must not panic or overflow, must report nothing that
//! was not recorded, and must give the same result every time.

use super::sketch::{a_rank, gib, mib};
use crate::detect::{Answer, Diagnosis, Kind, Options, diagnose};
use crate::timeline::{Column, OomMark, PhaseSpan, RecordedBy, Run, Track};
use proptest::collection::vec;
use proptest::prelude::*;

/// A byte count: mostly plausible, sometimes extreme, sometimes unknown.
fn bytes() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        6 => (0..gib(100)).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
        1 => Just(Some(i64::MAX)),
        1 => Just(Some(0)),
        1 => Just(None),
    ]
}

/// A timestamp: mostly within a day, sometimes arbitrary.
fn time() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..86_400_000_000_000_i64, 1 => any::<i64>(), 1 => Just(0_i64)]
}

fn column(length: usize) -> impl Strategy<Value = Column> {
    vec(bytes(), 0..=length).prop_map(|values| values.into_iter().collect())
}

fn any_track() -> impl Strategy<Value = Track> {
    vec(time(), 0..150).prop_flat_map(|t_ns| {
        let n = t_ns.len();
        let phases = vec((time(), proptest::option::of(time())), 0..4);
        let ooms = vec(time(), 0..2);
        let device = (column(n), column(n), column(n), column(n));
        let columns = (column(n), column(n), device);
        (Just(t_ns), columns, phases, ooms, 0..3_u32, -1..3_i64).prop_map(
            |(t_ns, columns, phases, ooms, rank, device_id)| {
                let (allocated, reserved, (used, own, free, total)) = columns;
                let span = |(start_ns, end_ns)| PhaseSpan {
                    name: "evaluation".to_owned(),
                    start_ns,
                    end_ns,
                    ..PhaseSpan::default()
                };
                let mark = |at_ns| OomMark {
                    at_ns,
                    reason: "out of memory".to_owned(),
                    ..OomMark::default()
                };
                // On the tracks of rank 1, the counters and steps are arbitrary too.
                let odd = |column: &Column| {
                    if rank == 1 {
                        column.clone()
                    } else {
                        Column::default()
                    }
                };
                let recorder = if rank == 2 {
                    RecordedBy::Run
                } else {
                    RecordedBy::Tracker
                };
                Track {
                    rank,
                    device_id,
                    recorder,
                    step: odd(&free),
                    step_count: odd(&total),
                    peak: odd(&reserved),
                    pinned: odd(&own),
                    t_ns,
                    allocated,
                    reserved,
                    used,
                    own,
                    free,
                    total,
                    phases: phases.into_iter().map(span).collect(),
                    ooms: ooms.into_iter().map(mark).collect(),
                    ..Track::default()
                }
            },
        )
    })
}

fn kinds_of(diagnosis: &Diagnosis) -> Vec<Kind> {
    diagnosis.findings().iter().map(|f| f.kind).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_run_gets_an_answer(tracks in vec(any_track(), 0..4), hours in any::<f64>()) {
        let run = Run { tracks, ..Run::default() };
        let options = Options { oom_horizon_hours: hours };
        let diagnosis = diagnose(&run, &options);
        prop_assert_eq!(diagnosis.answers.len(), Kind::ALL.len());
        for finding in diagnosis.findings() {
            prop_assert!((0.5..=1.0).contains(&finding.confidence));
            prop_assert!(!finding.explanation.is_empty() && !finding.advice.is_empty());
            prop_assert!(finding.evidence.iter().all(|(_, number)| !number.is_nan()));
        }
        prop_assert_eq!(&diagnosis, &diagnose(&run, &options));
    }

    #[test]
    fn a_constant_is_nothing(level in bytes(), n in 0..400_i64) {
        let values = |_| level;
        let track = Track {
            t_ns: (0..n).collect(),
            allocated: (0..n).map(values).collect(),
            reserved: (0..n).map(values).collect(),
            used: (0..n).map(values).collect(),
            total: (0..n).map(values).collect(),
            ..Track::default()
        };
        let run = Run { tracks: vec![track], ..Run::default() };
        prop_assert_eq!(kinds_of(&diagnose(&run, &Options::default())), vec![]);
    }

    #[test]
    fn order_and_repetition_of_samples_do_not_matter(seed in any::<u64>()) {
        let plain = a_rank(0).grows(mib(20), 150).track();
        let mut order: Vec<usize> = (0..plain.t_ns.len()).chain(0..50).collect();
        let mut state = seed;
        for k in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(k, usize::try_from(state >> 33).unwrap() % (k + 1));
        }
        let pick = |column: &Column| order.iter().map(|&i| column.get(i)).collect::<Column>();
        let shuffled = Track {
            t_ns: order.iter().map(|&i| plain.t_ns[i]).collect(),
            allocated: pick(&plain.allocated),
            reserved: pick(&plain.reserved),
            used: pick(&plain.used),
            free: pick(&plain.free),
            total: pick(&plain.total),
            ..plain.clone()
        };
        let diagnose = |track| diagnose(&Run { tracks: vec![track], ..Run::default() }, &Options::default());
        prop_assert_eq!(diagnose(plain), diagnose(shuffled));
    }

    #[test]
    fn few_samples_are_too_few(n in 0..47_i64) {
        let run = Run { tracks: vec![a_rank(0).samples(n).grows(mib(100), 0).track()], ..Run::default() };
        for (_, answer) in diagnose(&run, &Options::default()).answers {
            prop_assert_eq!(answer, Answer::NotEnoughEvidence);
        }
    }
}

#[test]
fn a_clock_that_jumps_back_makes_nothing_up() {
    let mut track = a_rank(0).track();
    for t in &mut track.t_ns[200..] {
        *t -= 150_000_000_000;
    }
    let diagnosis = diagnose(
        &Run {
            tracks: vec![track],
            ..Run::default()
        },
        &Options::default(),
    );
    assert_eq!(kinds_of(&diagnosis), vec![]);
}

#[test]
fn a_device_that_holds_less_than_its_allocator_hides_nothing() {
    let mut track = a_rank(0).track();
    let used = |i: usize| Some(gib(10) + mib(i64::try_from(i).unwrap() * 20));
    track.used = (0..track.t_ns.len()).map(used).collect();
    let diagnosis = diagnose(
        &Run {
            tracks: vec![track],
            ..Run::default()
        },
        &Options::default(),
    );
    assert_eq!(kinds_of(&diagnosis), vec![]);
}
