//! Interruptions of training: marked phases that occur now and then, such as evaluations and
//! checkpoints. Samples within interruptions are left out, because their memory use shows nothing
//! about training steps.

use crate::stats::median;
use crate::timeline::PhaseSpan;
use std::collections::BTreeMap;

/// A marked phase that covers more than this share of the track contains the training steps, so it
/// is neither an interruption of training nor compared with training steps.
pub(crate) const MAX_COVERAGE: f64 = 0.55;
/// A marked phase that recurs after fewer samples than this is part of the training step and not an
/// interruption.
const MIN_SAMPLES_BETWEEN: f64 = 6.0;

/// The time spans of a track in which the program did not train, as start and end in seconds since
/// the first sample, sorted and disjoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interruptions(Vec<(f64, f64)>);

impl Interruptions {
    /// Selects the interruptions among the marked phases. `seconds` converts a timestamp of a phase
    /// to seconds since the track's first sample.
    pub(crate) fn of(
        phases: &[PhaseSpan],
        end: f64,
        interval: f64,
        seconds: impl Fn(i64) -> f64,
    ) -> Self {
        let mut by_name: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for phase in phases {
            let from = seconds(phase.start_ns).clamp(0.0, end);
            let to = phase.end_ns.map_or(end, &seconds).clamp(from, end);
            by_name.entry(&phase.name).or_default().push((from, to));
        }
        let mut spans: Vec<(f64, f64)> = Vec::new();
        for mut named in by_name.into_values() {
            named.sort_by(|a, b| a.0.total_cmp(&b.0));
            let gaps: Vec<f64> = named.windows(2).map(|w| w[1].0 - w[0].0).collect();
            let rare = gaps.len() < 3 || median(&gaps) >= MIN_SAMPLES_BETWEEN * interval;
            if rare && covered(&named) <= MAX_COVERAGE * end {
                spans.append(&mut named);
            }
        }
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged: Vec<(f64, f64)> = Vec::new();
        for span in spans {
            match merged.last_mut() {
                Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
                _ => merged.push(span),
            }
        }
        if covered(&merged) > MAX_COVERAGE * end {
            Self::default()
        } else {
            Self(merged)
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether training was interrupted at time `t`, or at most `slack` seconds before or after it.
    pub(crate) fn contain(&self, t: f64, slack: f64) -> bool {
        let after = self.0.partition_point(|span| span.0 - slack <= t);
        after
            .checked_sub(1)
            .is_some_and(|k| t <= self.0[k].1 + slack)
    }
}

fn covered(spans: &[(f64, f64)]) -> f64 {
    spans.iter().map(|s| s.1 - s.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(name: &str, every: i64, lasts: i64) -> Vec<PhaseSpan> {
        let span = |k: i64| PhaseSpan {
            name: name.to_owned(),
            start_ns: k * every,
            end_ns: Some(k * every + lasts),
            ..PhaseSpan::default()
        };
        (1..1000 / every).map(span).collect()
    }

    fn found(phases: &[PhaseSpan]) -> Interruptions {
        Interruptions::of(phases, 1000.0, 1.0, |ns| ns as f64)
    }

    #[test]
    fn evaluations_interrupt() {
        let evaluations = found(&spans("evaluation", 100, 20));
        assert!(evaluations.contain(110.0, 0.0));
        assert!(!evaluations.contain(130.0, 0.0));
        assert!(evaluations.contain(121.0, 2.0));
        assert!(!evaluations.contain(50.0, 0.0));
    }

    #[test]
    fn parts_of_a_step_and_whole_epochs_do_not() {
        assert!(found(&spans("forward", 5, 1)).is_empty());
        assert!(found(&spans("epoch", 100, 99)).is_empty());
    }

    #[test]
    fn an_open_phase_lasts_to_the_end() {
        let open = PhaseSpan {
            name: "evaluation".to_owned(),
            start_ns: 900,
            end_ns: None,
            ..PhaseSpan::default()
        };
        assert!(found(&[open]).contain(999.0, 0.0));
    }
}
