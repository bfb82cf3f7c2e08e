//! Notes on phases that need much more memory than training steps, and on memory that the allocator
//! keeps cached after such a phase. A phase that needs more memory than a step is only a note and
//! not a finding, because an evaluation may rightly need more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::detect::evidence::interruptions::MAX_COVERAGE;
use crate::detect::evidence::levels::MOST_PHASES;
use crate::detect::finding::words;
use crate::stats::RangeMax;
use crate::timeline::{Run, Track, float};

/// A phase is reported when its peak is at least `MIN_TIMES` times the peak of training steps, and
/// at least `MIN_BYTES` above the peak of training steps.
const MIN_TIMES: f64 = 1.5;
const MIN_BYTES: i64 = 256 << 20;
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

/// The notes on the phases of a run, and the number of phases that are left out. For each phase,
/// only the rank with the highest peak is reported, and of each track at most [`MOST_PHASES`]
/// phases, those with the highest peaks.
pub(super) fn notes(run: &Run) -> (Vec<PhasePeak>, usize) {
    let mut by_phase: BTreeMap<String, PhasePeak> = BTreeMap::new();
    let mut left_out: BTreeSet<&str> = BTreeSet::new();
    for track in &run.tracks {
        if track.is_host() || track.phases.is_empty() {
            continue;
        }
        for note in of_track(track, &mut left_out) {
            match by_phase.get(&note.phase) {
                Some(known) if known.phase_peak_bytes >= note.phase_peak_bytes => {}
                _ => {
                    by_phase.insert(note.phase.clone(), note);
                }
            }
        }
    }
    left_out.retain(|phase| !by_phase.contains_key(*phase));
    (by_phase.into_values().collect(), left_out.len())
}

/// The phases of a track that get a note in the report. The names of the phases beyond [`MOST_PHASES`] are added to
/// `left_out`.
fn of_track<'t>(track: &'t Track, left_out: &mut BTreeSet<&'t str>) -> Vec<PhasePeak> {
    let Some((first, last)) = track.span_ns() else {
        return Vec::new();
    };
    let mut phases: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    for phase in &track.phases {
        let span = (phase.start_ns, phase.end_ns.unwrap_or(last));
        phases.entry(&phase.name).or_default().push(span);
    }
    let length = float(last.saturating_sub(first));
    phases.retain(|_, spans| {
        let covered = spans
            .iter()
            .map(|span| float(span.1.saturating_sub(span.0)));
        covered.sum::<f64>() <= MAX_COVERAGE * length
    });
    let samples = Samples::of(track);
    let steps = samples.outside(phases.values().flatten());
    if steps.samples < MIN_SAMPLES || steps.peak == 0 {
        return Vec::new();
    }
    let needs_more = |peak: i64| {
        float(peak) >= MIN_TIMES * float(steps.peak) && peak.saturating_sub(steps.peak) >= MIN_BYTES
    };
    let mut found: Vec<(&str, i64)> = phases
        .iter()
        .map(|(name, spans)| (*name, samples.highest_within(spans)))
        .filter(|(_, peak)| needs_more(*peak))
        .collect();
    if found.len() > MOST_PHASES {
        found.sort_by_key(|(_, peak)| std::cmp::Reverse(*peak));
        left_out.extend(found.drain(MOST_PHASES..).map(|(name, _)| name));
    }
    found
        .into_iter()
        .map(|(name, peak)| {
            let spans = &phases[name];
            let start_ns = spans.iter().map(|span| span.0).min().unwrap_or(first);
            let end_ns = spans.iter().map(|span| span.1).max().unwrap_or(last);
            let unused = unused_cache(track, (start_ns, end_ns), steps.peak);
            describe(track, name, (peak, steps.peak), unused)
        })
        .collect()
}

/// The samples of a track in order of time, prepared so that the time to find the peak of a phase
/// does not depend on the number of samples in the phase. A program may mark a phase in every step
/// of a long run.
struct Samples {
    t_ns: Vec<i64>,
    /// Bytes in live tensors at each sample; zero when unknown.
    allocated: Vec<i64>,
    /// The allocator's peak counter at the samples where it is higher than at all samples before;
    /// zero at other samples. The counter may have risen at any time since the previous sample.
    risen: Vec<i64>,
    highest_allocated: RangeMax,
    /// As `risen`, without the first reading of the counter, which also covers the time before the
    /// recording.
    highest_risen: RangeMax,
}

/// The samples outside of all phases: how many there are, and the highest memory use of steps.
struct Outside {
    samples: usize,
    peak: i64,
}

impl Samples {
    fn of(track: &Track) -> Self {
        let order = track.in_time_order();
        let allocated = order.iter().map(|&i| track.allocated.get(i).unwrap_or(0));
        let allocated: Vec<i64> = allocated.collect();
        let (mut risen, mut counter, mut first) = (Vec::new(), None, None);
        for (index, &sample) in order.iter().enumerate() {
            let now = track.peak.get(sample).filter(|&now| Some(now) > counter);
            risen.push(now.unwrap_or(0));
            counter = counter.max(now);
            first = first.or(now.map(|_| index));
        }
        let mut without_first = risen.clone();
        if let Some(first) = first {
            without_first[first] = 0;
        }
        Self {
            t_ns: order.iter().map(|&i| track.t_ns[i]).collect(),
            highest_allocated: RangeMax::of(&allocated),
            highest_risen: RangeMax::of(&without_first),
            allocated,
            risen,
        }
    }

    /// The indices of the samples in a time span.
    fn within(&self, (start_ns, end_ns): (i64, i64)) -> Range<usize> {
        let start = self.t_ns.partition_point(|&at| at < start_ns);
        let end = self.t_ns.partition_point(|&at| at <= end_ns);
        start..end.max(start)
    }

    /// The highest memory use in any of the spans of a phase.
    fn highest_within(&self, spans: &[(i64, i64)]) -> i64 {
        let highest = |&span: &(i64, i64)| {
            let inside = self.within(span);
            // The sample after the phase shows a rise of the counter at the end of the phase.
            let until = (inside.end + 1).min(self.t_ns.len());
            let risen = self.highest_risen.of_range(inside.start..until);
            self.highest_allocated.of_range(inside).max(risen)
        };
        spans.iter().map(highest).max().unwrap_or(0).max(0)
    }

    /// The samples outside of all the given spans. When both a phase and steps fall into the time
    /// since the previous sample, a rise of the peak counter counts for both.
    fn outside<'s>(&self, spans: impl Iterator<Item = &'s (i64, i64)>) -> Outside {
        // How many more spans contain a sample, or the time since the sample before it, than
        // contain the previous sample.
        let mut changes = vec![0_i64; self.t_ns.len() + 1];
        let mut changes_of_whole = changes.clone();
        for &span in spans {
            let inside = self.within(span);
            changes[inside.start] += 1;
            changes[inside.end] -= 1;
            let second = (inside.start + 1).min(inside.end);
            let whole = if inside.start == 0 { 0 } else { second };
            changes_of_whole[whole] += 1;
            changes_of_whole[inside.end] -= 1;
        }
        let mut found = Outside {
            samples: 0,
            peak: 0,
        };
        let (mut covering, mut covering_whole) = (0, 0);
        for index in 0..self.t_ns.len() {
            covering += changes[index];
            covering_whole += changes_of_whole[index];
            if covering == 0 {
                found.samples += 1;
                found.peak = found.peak.max(self.allocated[index]);
            }
            if covering_whole == 0 {
                found.peak = found.peak.max(self.risen[index]);
            }
        }
        found
    }
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
    use crate::timeline::PhaseSpan;

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
                ..PhaseSpan::default()
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
        let (found, _) = notes(&with_evaluation(gib(20), gib(5)));
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].explanation,
            "evaluation needs 5.0 times the memory of a training step (20.0 GiB against 4.00 GiB)"
        );
        assert_eq!(found[0].unused_cache_bytes, 0);
    }

    #[test]
    fn what_stays_cached_after_it_is_noted_too() {
        let (found, _) = notes(&with_evaluation(gib(20), gib(20)));
        let end = "; 15.0 GiB stay cached after the phase and are never used again";
        assert!(found[0].explanation.ends_with(end), "{found:?}");
    }

    #[test]
    fn an_evaluation_like_a_step_is_not() {
        assert_eq!(notes(&with_evaluation(gib(4) + mib(100), gib(5))).0, []);
        assert_eq!(notes(&with_evaluation(gib(5), gib(6))).0, []);
    }

    #[test]
    fn a_rise_that_steps_share_counts_for_both() {
        let mut run = with_evaluation(gib(20), gib(20));
        // The evaluation ends between two samples, and only the sample after its end shows the
        // rise.
        run.tracks[0].phases[0].end_ns = Some(52_500_000_000);
        assert_eq!(notes(&run), (Vec::new(), 0));
    }

    /// The test would run for hours if the time grew with the product of samples and phases.
    #[test]
    fn a_phase_in_every_step_of_a_long_run_costs_no_more_than_the_samples() {
        let count = 300_000;
        let phases = |name: &dyn Fn(i64) -> String| {
            let span = |second: i64| PhaseSpan {
                name: name(second),
                start_ns: second * 1_000_000_000 + 500_000_000,
                end_ns: Some(second * 1_000_000_000 + 1_000_000_000),
                ..PhaseSpan::default()
            };
            (0..count).step_by(2).map(span).collect::<Vec<_>>()
        };
        let allocated = |i: i64| if i % 2 == 1 { gib(20) } else { gib(2) };
        let mut run = Run {
            tracks: vec![Track {
                t_ns: (0..count).map(|second| second * 1_000_000_000).collect(),
                allocated: (0..count).map(|i| Some(allocated(i))).collect(),
                phases: phases(&|_| "forward".to_owned()),
                ..Track::default()
            }],
            ..Run::default()
        };
        let (found, _) = notes(&run);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].phase_peak_bytes, gib(20));
        assert_eq!(found[0].step_peak_bytes, gib(2));
        run.tracks[0].phases = phases(&|second| format!("step {second}"));
        let of_steps = run.tracks[0].phases.len();
        let (noted, left_out) = notes(&run);
        assert_eq!(
            (noted.len(), left_out),
            (MOST_PHASES, of_steps - MOST_PHASES)
        );
        // A phase that is left out of one track is not left out of the run if another has it.
        let mut other = run.tracks[0].clone();
        let names: BTreeSet<&str> = noted.iter().map(|note| note.phase.as_str()).collect();
        for phase in &mut other.phases {
            if names.contains(phase.name.as_str()) {
                phase.name = "forward".to_owned();
            }
        }
        run.tracks.push(other);
        let noted_of_other = MOST_PHASES - 1;
        assert_eq!(notes(&run).1, of_steps - MOST_PHASES - noted_of_other);
    }
}
