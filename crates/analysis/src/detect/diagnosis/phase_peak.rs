//! Notes on phases that need much more memory than training steps, and on memory that the allocator
//! keeps cached after such a phase. A phase that needs more memory than a step is only a note and
//! not a finding, because an evaluation may rightly need more.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::detect::finding::words;
use crate::timeline::{PhaseSpan, Resource, Run, Track, float};

/// A phase is reported when its peak is at least `MIN_TIMES` times the peak of training steps, and
/// at least `MIN_BYTES` above the peak of training steps.
const MIN_TIMES: f64 = 1.5;
const MIN_BYTES: i64 = 256 << 20;
/// A phase that covers more than this share of the track contains the training steps, so it is not
/// compared with them.
const MAX_COVERAGE: f64 = 0.55;
/// The peak of steps is measured only with at least this many samples outside of phases. The cache
/// that stays unused after a phase is measured only with at least this many samples after the
/// phase.
const MIN_SAMPLES: usize = 10;

/// A note about a phase that needs much more memory than training steps. It is not a problem by
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Note")]
pub struct PhasePeak {
    /// The rank.
    pub rank: u32,
    /// The device.
    pub device_id: i64,
    /// The name of the phase.
    pub phase: String,
    /// Highest memory use in the phase, in bytes.
    pub phase_peak_bytes: i64,
    /// Highest memory use of steps outside of phases, in bytes.
    pub step_peak_bytes: i64,
    /// Bytes that stay cached from the end of the phase to the end of the track although steps
    /// never need them; zero when there are none.
    pub unused_cache_bytes: i64,
    /// One sentence that explains the note with its numbers.
    pub explanation: String,
    /// The usual causes of the phase's memory use, and what to do about them.
    pub advice: String,
}

/// The notes on all phases of a run. For each phase, only the rank with the highest peak is
/// reported.
pub(super) fn notes(run: &Run) -> Vec<PhasePeak> {
    let mut by_phase: BTreeMap<String, PhasePeak> = BTreeMap::new();
    for track in &run.tracks {
        if track.resource() == Resource::Host || track.phases.is_empty() {
            continue;
        }
        for note in of_track(track) {
            match by_phase.get(&note.phase) {
                Some(known) if known.phase_peak_bytes >= note.phase_peak_bytes => {}
                _ => {
                    by_phase.insert(note.phase.clone(), note);
                }
            }
        }
    }
    by_phase.into_values().collect()
}

fn of_track(track: &Track) -> Vec<PhasePeak> {
    let Some((first, last)) = track.span_ns() else {
        return Vec::new();
    };
    let mut phases: BTreeMap<&str, Vec<&PhaseSpan>> = BTreeMap::new();
    for phase in &track.phases {
        phases.entry(&phase.name).or_default().push(phase);
    }
    let length = float(last.saturating_sub(first));
    let end_of = |phase: &PhaseSpan| phase.end_ns.unwrap_or(last);
    phases.retain(|_, spans| {
        let covered = spans
            .iter()
            .map(|one| float(end_of(one).saturating_sub(one.start_ns)));
        covered.sum::<f64>() <= MAX_COVERAGE * length
    });
    let mut order: Vec<usize> = (0..track.t_ns.len()).collect();
    order.sort_by_key(|&sample| track.t_ns[sample]);
    let mut peaks: BTreeMap<&str, i64> = BTreeMap::new();
    let (mut steps, mut outside, mut counter) = (0, 0_usize, None);
    let mut before_ns = first;
    for &sample in &order {
        let at = track.t_ns[sample];
        let inside = |spans: &[&PhaseSpan], from: i64| {
            spans
                .iter()
                .any(|one| one.start_ns <= at && end_of(one) >= from)
        };
        // The allocator's peak counter may have risen at any time since the previous sample. When
        // both a phase and steps fall into the time since the previous sample, the peak counts for
        // both.
        let risen = track.peak.get(sample).filter(|&now| Some(now) > counter);
        let is_whole = phases
            .values()
            .flatten()
            .any(|one| one.start_ns <= before_ns && end_of(one) >= at);
        let allocated = track.allocated.get(sample).unwrap_or(0);
        let mut is_outside = true;
        for (name, spans) in &phases {
            let most = peaks.entry(name).or_default();
            if inside(spans, at) {
                is_outside = false;
                *most = (*most).max(allocated);
            }
            if inside(spans, before_ns) {
                *most = (*most).max(risen.filter(|_| counter.is_some()).unwrap_or(0));
            }
        }
        if is_outside {
            outside += 1;
            steps = steps.max(allocated);
        }
        if !is_whole {
            steps = steps.max(risen.unwrap_or(0));
        }
        counter = counter.max(track.peak.get(sample));
        before_ns = at;
    }
    if outside < MIN_SAMPLES || steps == 0 {
        return Vec::new();
    }
    let needs_more = |peak: i64| {
        float(peak) >= MIN_TIMES * float(steps) && peak.saturating_sub(steps) >= MIN_BYTES
    };
    peaks
        .into_iter()
        .filter(|(_, peak)| needs_more(*peak))
        .map(|(name, peak)| {
            let end_ns = phases[name]
                .iter()
                .map(|one| end_of(one))
                .max()
                .unwrap_or(last);
            let start_ns = phases[name].iter().map(|one| one.start_ns).min();
            let unused = unused_cache(track, (start_ns.unwrap_or(first), end_ns), steps);
            describe(track, name, (peak, steps), unused)
        })
        .collect()
}

/// Bytes that the allocator keeps reserved from the end of a phase to the end of the track, minus
/// the larger of two amounts: the memory that steps need, and the memory that was reserved before
/// the phase.
fn unused_cache(track: &Track, (start_ns, end_ns): (i64, i64), steps: i64) -> i64 {
    let reserved = |is_wanted: &dyn Fn(i64) -> bool| -> Vec<i64> {
        let samples = (0..track.t_ns.len()).filter(|&sample| is_wanted(track.t_ns[sample]));
        samples
            .filter_map(|sample| track.reserved.get(sample))
            .collect()
    };
    let before = reserved(&|at| at < start_ns).into_iter().max().unwrap_or(0);
    let after = reserved(&|at| at > end_ns);
    if after.len() < MIN_SAMPLES {
        return 0;
    }
    let least = after.into_iter().min().unwrap_or(0);
    let unused = least.saturating_sub(steps.max(before));
    if unused >= MIN_BYTES { unused } else { 0 }
}

fn describe(track: &Track, phase: &str, (peak, steps): (i64, i64), unused: i64) -> PhasePeak {
    let name = match phase {
        "eval" | "evaluation" | "validation" => "evaluation".to_owned(),
        "checkpoint" | "train" => phase.to_owned(),
        other => format!("phase '{other}'"),
    };
    let mut explanation = format!(
        "{name} needs {ratio:.1} times the memory of a training step ({peak} against {step})",
        ratio = float(peak) / float(steps).max(1.0),
        peak = words::bytes(float(peak)),
        step = words::bytes(float(steps)),
    );
    let mut advice = "usual causes are a larger batch than in training, gradients that are not \
                      switched off (torch.no_grad), and outputs that stay on the device until the \
                      phase ends"
        .to_owned();
    if unused > 0 {
        let size = words::bytes(float(unused));
        explanation =
            format!("{explanation}; {size} stay cached after the phase and are never used again");
        advice.push_str(
            "; torch.cuda.empty_cache() after the phase returns this cache to the device",
        );
    }
    PhasePeak {
        rank: track.rank,
        device_id: track.device_id,
        phase: phase.to_owned(),
        phase_peak_bytes: peak,
        step_peak_bytes: steps,
        unused_cache_bytes: unused,
        explanation,
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::sketch::{gib, mib};

    /// Creates a run of 100 samples, one per second, with an evaluation from 50 s to 55 s. The
    /// evaluation raises the allocator's peak counter and reserved memory, but its peak falls
    /// between two samples of allocated memory.
    fn with_evaluation(peak: i64, cached_after: i64) -> Run {
        let column = |value: &dyn Fn(i64) -> i64| (0..100).map(|i| Some(value(i))).collect();
        let track = Track {
            t_ns: (0..100).map(|second| second * 1_000_000_000).collect(),
            allocated: column(&|_| gib(2)),
            peak: column(&|i| if i < 53 { gib(4) } else { peak.max(gib(4)) }),
            reserved: column(&|i| if i < 53 { gib(5) } else { cached_after }),
            phases: vec![PhaseSpan {
                name: "eval".into(),
                start_ns: 50_000_000_000,
                end_ns: Some(55_000_000_000),
            }],
            ..Track::default()
        };
        Run {
            tracks: vec![track],
            ..Run::default()
        }
    }

    #[test]
    fn an_evaluation_that_needs_more_than_a_step_is_noted() {
        let found = notes(&with_evaluation(gib(20), gib(5)));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].explanation,
            "evaluation needs 5.0 times the memory of a training step (20.0 GiB against 4.00 GiB)"
        );
        assert_eq!(found[0].unused_cache_bytes, 0);
    }

    #[test]
    fn what_stays_cached_after_it_is_noted_too() {
        let found = notes(&with_evaluation(gib(20), gib(20)));
        let end = "; 15.0 GiB stay cached after the phase and are never used again";
        assert!(found[0].explanation.ends_with(end), "{found:?}");
    }

    #[test]
    fn an_evaluation_like_a_step_is_not() {
        assert_eq!(notes(&with_evaluation(gib(4) + mib(100), gib(5))), []);
        assert_eq!(notes(&with_evaluation(gib(5), gib(6))), []);
    }

    #[test]
    fn a_rise_that_steps_share_counts_for_both() {
        let mut run = with_evaluation(gib(20), gib(20));
        // The evaluation ends between two samples, and only the sample after its end shows the
        // rise.
        run.tracks[0].phases[0].end_ns = Some(52_500_000_000);
        assert_eq!(notes(&run), []);
    }
}
