//! The steps of a track: memory in use at the end of each step, and the highest use within the
//! step.

use std::collections::BTreeMap;

use super::track::Track;

/// One step, or several steps when only the end of the last one was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of the step: how many steps all optimizers together had taken at its end
    /// ([`Track::step_count`]). Where that was not recorded, the recorded number of the step
    /// ([`Track::step`]).
    pub number: i64,
    /// Time of the end of the step in nanoseconds since 1970.
    pub at_ns: i64,
    /// Bytes in live tensors at the end of the step.
    pub floor: i64,
    /// Highest number of bytes in live tensors since the end of the previous step. If the
    /// allocator's peak counter rose in the step, this is the counter's value, otherwise the
    /// highest sample of the step.
    pub peak: i64,
}

impl Track {
    /// The steps whose ends were sampled, in order of their numbers. The list is empty when no
    /// steps were recorded. With several optimizers, the memory in use after a step depends on the
    /// optimizer, so only the steps of the optimizer with the most samples are returned.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let Some((optimizer, _)) = self.busiest_optimizer() else {
            return Vec::new();
        };
        let mut steps: Vec<Step> = Vec::new();
        let (mut counter, mut highest) = (None, None);
        for sample in self.in_time_order() {
            let risen = self.peak.get(sample).filter(|&now| Some(now) > counter);
            // The first reading of the peak counter also covers the time before the recording, so
            // it is not used as the peak of a step.
            highest = highest
                .max(self.allocated.get(sample))
                .max(risen.filter(|_| counter.is_some()));
            counter = counter.max(self.peak.get(sample));
            let Some(floor) = self
                .allocated
                .get(sample)
                .filter(|_| self.ends_step(sample, optimizer))
            else {
                continue;
            };
            let number = self.step_count.get(sample).or(self.step.get(sample));
            let is_next = |number: &i64| steps.last().is_none_or(|last| *number > last.number);
            if let Some(number) = number.filter(is_next) {
                steps.push(Step {
                    number,
                    at_ns: self.t_ns[sample],
                    floor,
                    peak: highest.unwrap_or(floor),
                });
            }
            highest = None;
        }
        steps
    }

    /// Whether a sample was taken at the end of a step of an optimizer.
    pub(crate) fn ends_step(&self, sample: usize, optimizer: i64) -> bool {
        self.step.get(sample).is_some() && self.optimizer.get(sample).unwrap_or(0) == optimizer
    }

    /// The optimizer with the most samples at its step ends, and the number of those samples.
    pub(crate) fn busiest_optimizer(&self) -> Option<(i64, usize)> {
        let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
        for i in (0..self.step.len()).filter(|&i| self.step.get(i).is_some()) {
            *counts
                .entry(self.optimizer.get(i).unwrap_or(0))
                .or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_floor_and_the_most_since_the_step_before() {
        let track = Track {
            t_ns: (0..6).collect(),
            allocated: [3, 9, 4, 8, 5, 5].map(Some).into_iter().collect(),
            peak: [20, 20, 20, 30, 30, 30].map(Some).into_iter().collect(),
            step: [Some(1), None, Some(2), None, Some(3), Some(4)]
                .into_iter()
                .collect(),
            ..Track::default()
        };
        let steps: Vec<(i64, i64, i64)> = track
            .steps()
            .iter()
            .map(|step| (step.number, step.floor, step.peak))
            .collect();
        // The allocator's peak counter rose to 30 in the third step. The peak counter's value
        // before the first step does not count for a step.
        assert_eq!(steps, [(1, 3, 3), (2, 4, 9), (3, 5, 30), (4, 5, 5)]);
    }

    #[test]
    fn without_counted_steps_there_are_none() {
        let track = Track {
            t_ns: vec![0, 1],
            allocated: [Some(3), Some(4)].into_iter().collect(),
            ..Track::default()
        };
        assert_eq!(track.steps(), []);
    }
}
