//! The samples of one resource of one process, in columns. Plain data for a loader to fill.

use stormlog_format::Map;

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

    /// The highest value that is known.
    #[must_use]
    pub fn max(&self) -> Option<i64> {
        let known = self.0.iter().copied();
        known.filter(|&value| value != UNKNOWN).max()
    }

    /// Appends one value as the last of `length`; those that were never appended are unknown.
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

/// The highest values of a track; none where they were never known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Bytes in live tensors; on the host, all that the kernel cannot reclaim.
    pub allocated: Option<i64>,
    /// Bytes that the caching allocator held.
    pub reserved: Option<i64>,
    /// Bytes in use on the device.
    pub used: Option<i64>,
}

impl Peaks {
    /// The higher of each.
    #[must_use]
    pub fn or_higher(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.max(other.allocated),
            reserved: self.reserved.max(other.reserved),
            used: self.used.max(other.used),
        }
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

impl OomMark {
    /// What was in use when the request failed.
    #[must_use]
    pub fn in_use(&self) -> Peaks {
        Peaks {
            allocated: self.allocated,
            reserved: self.reserved,
            used: self.used,
        }
    }
}

/// What memory is measured of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Host memory of a process and its children.
    Host,
    /// One device, by its index.
    Device(i64),
}

/// How the memory of a device relates to that of the host, where it is not simply its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMemory {
    /// The device has none of its own: what it uses is host memory.
    Integrated,
    /// Device and host can each use the memory of the other.
    Coherent,
}

impl DeviceMemory {
    /// As the event that begins a session names it.
    pub(super) fn of_start(metadata: &Map) -> Option<Self> {
        match metadata.get("device_memory")?.as_text()?.as_str()? {
            "integrated" => Some(Self::Integrated),
            "coherent" => Some(Self::Coherent),
            _ => None,
        }
    }
}

/// Who recorded a track.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Recorder {
    /// A tracker inside or outside the program, or unknown.
    #[default]
    Tracker,
    /// `stormlog run`, which records a program from its first line to its last.
    Run,
}

/// Counters of device and allocator that are read within this time belong together.
const READ_TOGETHER_NS: i64 = 5_000_000;
/// How many samples after one are searched for the next reading of the allocator.
const MOST_LATER_SAMPLES: usize = 16;

/// The reading of the allocator that goes with one of the device.
enum Reading {
    /// They were read together.
    Same,
    /// What the next one gave.
    Later(i64),
    /// There is none any more.
    None,
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
    /// The job, where it has a name.
    pub job_id: Option<String>,
    /// The recorded process.
    pub pid: i64,
    /// Who recorded it.
    pub recorder: Recorder,
    /// The time between samples that the recorder announced; zero where it announced none.
    pub declared_interval_ns: i64,
    /// Samples up to this time were thinned: they are far apart on purpose.
    pub thinned_until_ns: Option<i64>,
    /// Time of each sample in Unix nanoseconds, by the clock of the rank's host.
    pub t_ns: Vec<i64>,
    /// Bytes in live tensors; on the host, all that the kernel cannot reclaim.
    pub allocated: Column,
    /// The most bytes in live tensors since the program last reset that counter.
    pub peak: Column,
    /// Bytes that the caching allocator holds.
    pub reserved: Column,
    /// When the allocator was read, where that was before the device was.
    pub allocator_read_ns: Column,
    /// Bytes in use on the device, by whomever.
    pub used: Column,
    /// Of these, the bytes of the recorded process; empty where they were not measured.
    pub own: Column,
    /// Bytes that the driver assigns to processes none of which it numbers as the recorded one, as in
    /// most containers; empty where it knows the recorded process.
    pub unassigned: Column,
    /// How the memory of the device relates to that of the host, where the recorder named it.
    pub device_memory: Option<DeviceMemory>,
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

    /// Whether the process's share of the device is unknown because the driver lists processes by
    /// numbers that are not those of the recorded process.
    #[must_use]
    pub fn is_share_hidden(&self) -> bool {
        !self.unassigned.is_empty() && !self.knows_own()
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

    /// Bytes in use outside the allocator at each sample, of the recorded process alone where its
    /// share of the device is known: a neighbour's growth is not its drift. Unknown everywhere when
    /// the two counters cannot mean the same device.
    ///
    /// Where device and allocator were read apart and the allocator changed in between, hidden memory
    /// is known within bounds only; it counts as unchanged as far as they allow.
    #[must_use]
    pub fn hidden(&self) -> Column {
        let in_use = if self.knows_own() {
            &self.own
        } else {
            &self.used
        };
        let mut before = None;
        let mut hidden: Vec<Option<i64>> = Vec::with_capacity(self.t_ns.len());
        for i in 0..self.t_ns.len() {
            let bytes =
                in_use
                    .get(i)
                    .zip(self.reserved.get(i))
                    .and_then(|(used, reserved)| {
                        let bytes = used.saturating_sub(reserved);
                        match self.next_reserved(i) {
                            Reading::Same => Some(bytes),
                            Reading::None => before,
                            Reading::Later(next) => {
                                let other = used.saturating_sub(next);
                                let bounds = (bytes.min(other), bytes.max(other));
                                Some(before.map_or(bounds.0, |before: i64| {
                                    before.clamp(bounds.0, bounds.1)
                                }))
                            }
                        }
                    });
            before = bytes.or(before);
            hidden.push(bytes);
        }
        let known = hidden.iter().flatten().count();
        let negative = hidden.iter().flatten().filter(|&&bytes| bytes < 0).count();
        let disagree = negative > known / 50;
        let settled = |bytes: Option<i64>| bytes.filter(|_| !disagree).map(|bytes| bytes.max(0));
        hidden.into_iter().map(settled).collect()
    }

    /// What the allocator held by its first reading after the device was read, where the two were
    /// read apart.
    fn next_reserved(&self, sample: usize) -> Reading {
        let at = self.t_ns[sample];
        let read_at = |i: usize| self.allocator_read_ns.get(i).unwrap_or(self.t_ns[i]);
        if at.saturating_sub(read_at(sample)) <= READ_TOGETHER_NS {
            return Reading::Same;
        }
        let mut later = (sample + 1..self.t_ns.len()).take(MOST_LATER_SAMPLES);
        let next = later.find(|&i| read_at(i) >= at);
        let next = next.and_then(|i| self.reserved.get(i));
        next.map_or(Reading::None, Reading::Later)
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

    /// The most bytes in live tensors, in the allocator and on the device. What a failed request
    /// found in use counts: no sample may have been taken then.
    #[must_use]
    pub fn peaks(&self) -> Peaks {
        let sampled = Peaks {
            allocated: self.allocated.max(),
            reserved: self.reserved.max(),
            used: self.used.max(),
        };
        let failures = self.ooms.iter().map(OomMark::in_use);
        failures.fold(sampled, Peaks::or_higher)
    }

    /// The size of what is measured: the device, or the memory that the process may use on the host.
    /// Where it was not recorded, used + free stands in.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<i64> {
        let sums = (0..self.used.len())
            .filter_map(|i| Some(self.used.get(i)?.saturating_add(self.free.get(i)?)));
        self.total.max().filter(|&total| total > 0).or(sums.max())
    }

    /// Bytes of the device that other processes hold at a sample; none where that is unknown.
    pub(crate) fn neighbours(&self, sample: usize) -> Option<f64> {
        Some(float(self.used.get(sample)?) - float(self.own.get(sample)?))
    }

    /// Whether the process's own share is known at nearly every sample; mixed with the whole
    /// device's use it would jump.
    #[must_use]
    pub fn knows_own(&self) -> bool {
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
    fn hidden_memory_has_no_peak_where_the_allocator_grew_after_it_was_read() {
        let second = 1_000_000_000;
        let known = |values: &[i64]| values.iter().map(|&bytes| Some(bytes)).collect();
        let track = Track {
            t_ns: vec![0, second, 2 * second, 3 * second],
            reserved: known(&[100, 100, 700, 700]),
            used: known(&[150, 750, 750, 750]),
            // The second and the third reading are half a second older than the device's.
            allocator_read_ns: [None, Some(second / 2), Some(3 * second / 2), None]
                .into_iter()
                .collect(),
            ..Track::default()
        };
        let hidden = track.hidden();
        let values: Vec<Option<i64>> = (0..4).map(|i| hidden.get(i)).collect();
        assert_eq!(values, [Some(50), Some(50), Some(50), Some(50)]);
    }

    #[test]
    fn what_a_failed_request_found_counts_as_the_peak() {
        let track = Track {
            t_ns: vec![0],
            allocated: [Some(5)].into_iter().collect(),
            ooms: vec![OomMark {
                allocated: Some(9),
                ..OomMark::default()
            }],
            ..Track::default()
        };
        assert_eq!(track.peaks().allocated, Some(9));
        assert_eq!(track.peaks().used, None);
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
