//! The samples of one resource of one process, in columns. Plain data for a loader to fill.

use super::oom_cause::Failure;
use super::windows::{Site, WindowEvidence};

/// A column of byte counts in which any value may be unknown.
///
/// Eight bytes a value: unknown is kept as `i64::MIN`, which no counter of bytes can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column(Vec<i64>);

const UNKNOWN: i64 = i64::MIN;

impl Column {
    /// Appends one value, `None` where it was not recorded.
    pub fn push(&mut self, value: Option<i64>) {
        self.0.push(value.unwrap_or(UNKNOWN));
    }

    /// The value at `index`; `None` where it is unknown or was never appended.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.0.get(index).copied().filter(|&value| value != UNKNOWN)
    }

    /// How many values, known or not, the column holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many values are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.iter().filter(|&&value| value != UNKNOWN).count()
    }

    /// Appends one value as the last of so many; those that were never appended are unknown.
    pub fn push_as(&mut self, length: usize, value: i64) {
        self.0.resize(length.saturating_sub(1), UNKNOWN);
        self.0.push(value);
    }

    /// Whether the column holds no value at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Option<i64>> for Column {
    fn from_iter<I: IntoIterator<Item = Option<i64>>>(values: I) -> Self {
        Self(values.into_iter().map(|v| v.unwrap_or(UNKNOWN)).collect())
    }
}

/// A named part of the training loop, such as an evaluation, in the clock of its track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSpan {
    /// The phase's name as the user gave it.
    pub name: String,
    /// When it was entered.
    pub start_ns: i64,
    /// When it was left; `None` when the record ends inside it.
    pub end_ns: Option<i64>,
}

/// An out-of-memory error that the recorder saw, with the numbers of the failed request as far as
/// they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomMark {
    /// When it was recorded.
    pub at_ns: i64,
    /// The reason as recorded, for instance the exception's name.
    pub reason: String,
    /// Bytes that were asked for.
    pub requested: Option<i64>,
    /// Bytes in live tensors when the request failed.
    pub allocated: Option<i64>,
    /// Bytes that the caching allocator held then.
    pub reserved: Option<i64>,
    /// Bytes in use on the device then.
    pub used: Option<i64>,
    /// Bytes that were free on the device then.
    pub free: Option<i64>,
    /// The most that the process may use, where that is less than the device.
    pub limit: Option<i64>,
    /// The innermost line of the user's code that asked for the memory.
    pub site: Option<Site>,
    /// The calls that led to the site, the innermost first, without the site itself.
    pub call_path: Vec<Site>,
    /// The operation that failed and what held the memory.
    pub failure: Option<Failure>,
}

/// What memory is measured of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Host memory of a process and its children.
    Host,
    /// One device, by its index.
    Device(i64),
}

/// Who recorded a track.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recorder {
    /// A tracker inside or outside the program, or nobody knows.
    #[default]
    Tracker,
    /// `stormlog run`, which records a program from its first line to its last.
    Run,
}

/// One session of one rank on one device: everything that was sampled, in columns of equal length.
///
/// Samples may be in any order and may repeat a timestamp; columns shorter than `t_ns` count as
/// unknown from there on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// Global rank.
    pub rank: u32,
    /// Device index; -1 is the CPU.
    pub device_id: i64,
    /// The session that recorded the samples; a restarted rank has several.
    pub session_id: String,
    /// The machine it ran on, whose clock it was timed by; empty where unknown.
    pub host: String,
    /// The recorded process.
    pub pid: i64,
    /// Who recorded it.
    pub recorder: Recorder,
    /// Time of each sample in Unix nanoseconds, by the clock of the rank's host.
    pub t_ns: Vec<i64>,
    /// Bytes in live tensors; on the host, all that the kernel cannot reclaim.
    pub allocated: Column,
    /// The most bytes in live tensors since the program last reset that counter.
    pub peak: Column,
    /// Bytes that the caching allocator holds.
    pub reserved: Column,
    /// Bytes in use on the device, by whomever.
    pub used: Column,
    /// Of these, the bytes of the recorded process; empty where nobody asked.
    pub own: Column,
    /// Bytes free on the device.
    pub free: Column,
    /// Size of the device; where it is unknown, used + free stands in.
    pub total: Column,
    /// The optimizer step that had just ended when the allocator was read; unknown anywhere else
    /// in a step.
    pub step: Column,
    /// The optimizer whose step it was.
    pub optimizer: Column,
    /// Optimizer steps so far.
    pub step_count: Column,
    /// Page-locked host memory that the framework holds.
    pub pinned: Column,
    /// Anonymous host memory of the process tree.
    pub anonymous: Column,
    /// Shared host memory, shared pages counted once.
    pub shared: Column,
    /// Phases that were marked while the session was recorded.
    pub phases: Vec<PhaseSpan>,
    /// Out-of-memory errors.
    pub ooms: Vec<OomMark>,
    /// What evidence windows saw, where any opened or could not.
    pub evidence: Option<WindowEvidence>,
}

impl Track {
    /// What the samples measure.
    #[must_use]
    pub fn resource(&self) -> Resource {
        if self.device_id < 0 {
            Resource::Host
        } else {
            Resource::Device(self.device_id)
        }
    }

    /// Whether this is host memory that `stormlog run` recorded, with start-up and all.
    #[must_use]
    pub fn is_host_of_run(&self) -> bool {
        self.resource() == Resource::Host && self.recorder == Recorder::Run
    }

    /// The times of the first and the last sample.
    #[must_use]
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        Some((*self.t_ns.iter().min()?, *self.t_ns.iter().max()?))
    }

    /// Bytes in use outside the allocator at each sample. On a device shared with others these
    /// are the process's own, where its share is known: a neighbour's growth is not its drift.
    pub(crate) fn hidden(&self) -> impl Fn(usize) -> Option<f64> + '_ {
        let in_use = if self.knows_own() {
            &self.own
        } else {
            &self.used
        };
        move |sample| Some(float(in_use.get(sample)?) - float(self.reserved.get(sample)?))
    }

    /// Bytes in use outside the allocator at a sample, of the recorded process alone where its
    /// share of the device is known; none where it is unknown.
    #[must_use]
    pub fn hidden_bytes(&self) -> Vec<Option<i64>> {
        let own = self.knows_own().then_some(&self.own);
        let in_use = own.unwrap_or(&self.used);
        (0..self.t_ns.len())
            .map(|i| Some(in_use.get(i)?.saturating_sub(self.reserved.get(i)?)))
            .collect()
    }

    /// Bytes of the device that are not this process's at each sample: other processes' and the
    /// driver's. None where the process's share is unknown.
    #[must_use]
    pub fn other_processes_bytes(&self) -> Vec<Option<i64>> {
        let is_known = self.knows_own();
        (0..self.t_ns.len())
            .map(|i| {
                let used = self.used.get(i).filter(|_| is_known)?;
                // Two counters are read one after the other, so that the share may exceed the sum.
                Some(used.saturating_sub(self.own.get(i)?).max(0))
            })
            .collect()
    }

    /// Bytes of the device that other processes hold at a sample; none where that is unknown.
    pub(crate) fn neighbours(&self, sample: usize) -> Option<f64> {
        Some(float(self.used.get(sample)?) - float(self.own.get(sample)?))
    }

    /// Whether the process's own share is known at nearly every sample; mixed with the whole
    /// device's use it would jump.
    pub(crate) fn knows_own(&self) -> bool {
        if self.own.is_empty() {
            return false;
        }
        let used = self.used.known();
        self.own.known() >= used - used / 50
    }
}

/// Bytes as a number to calculate with.
#[allow(
    clippy::cast_precision_loss,
    reason = "bytes and nanoseconds to 53 bits are exact enough"
)]
pub(crate) fn float(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_value_leaves_those_before_it_unknown() {
        let mut column = Column::default();
        column.push_as(3, 7);
        let values = [column.get(0), column.get(1), column.get(2)];
        assert_eq!(values, [None, None, Some(7)]);
    }

    #[test]
    fn unknown_is_not_zero() {
        let column: Column = [Some(0), None, Some(-5)].into_iter().collect();
        assert_eq!(column.get(0), Some(0));
        assert_eq!(column.get(1), None);
        assert_eq!(column.get(2), Some(-5));
        assert_eq!(column.get(3), None);
    }
}
