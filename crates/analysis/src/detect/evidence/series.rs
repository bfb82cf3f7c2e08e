//! The values of one quantity of a track, such as allocated memory, over time.

use super::interruptions::Interruptions;

/// The values of one quantity, such as allocated memory, with strictly increasing times. Samples in
/// which the quantity is unknown are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series {
    /// The time of each sample, in seconds since the track's first sample.
    pub(crate) t: Vec<f64>,
    /// The value of each sample: usually bytes, for `Signals::step_count` a number of steps.
    pub(crate) y: Vec<f64>,
}

impl Series {
    pub(crate) fn len(&self) -> usize {
        self.t.len()
    }

    pub(crate) fn push(&mut self, t: f64, y: f64) {
        self.t.push(t);
        self.y.push(y);
    }

    /// Index of the first sample at or after the time `t`.
    pub(crate) fn index_at(&self, t: f64) -> usize {
        self.t.partition_point(|&at| at < t)
    }

    /// The values of the samples from time `from` (included) to time `to` (excluded).
    pub(crate) fn between(&self, from: f64, to: f64) -> &[f64] {
        let first = self.index_at(from);
        &self.y[first..self.index_at(to).max(first)]
    }

    /// A copy in which `bytes(t)` is subtracted from the value at each time `t`.
    pub(crate) fn minus(&self, bytes: impl Fn(f64) -> f64) -> Self {
        let samples = self.t.iter().zip(&self.y);
        samples.map(|(&t, y)| (t, y - bytes(t))).collect()
    }

    /// A copy without the samples that were taken during interruptions of the training.
    pub(crate) fn outside(&self, interruptions: &Interruptions) -> Self {
        let samples = self.t.iter().copied().zip(self.y.iter().copied());
        samples
            .filter(|(t, _)| !interruptions.contain(*t, 0.0))
            .collect()
    }
}

/// A series of samples, given as time and value.
impl FromIterator<(f64, f64)> for Series {
    fn from_iter<I: IntoIterator<Item = (f64, f64)>>(samples: I) -> Self {
        let (t, y) = samples.into_iter().unzip();
        Self { t, y }
    }
}
