//! The samples of one resource of one process, in columns. A track is plain data that a loader
//! fills.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::Map;

use super::ledger::Ledger;
use super::oom_cause::Failure;
use super::windows::{Site, WindowEvidence};
use crate::untrusted::text;

/// A column of byte counts, in which any value may be unknown.
///
/// A value takes eight bytes; an unknown value is stored as `i64::MIN`, which no byte count can
/// reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column(Vec<i64>);

const UNKNOWN: i64 = i64::MIN;

impl Column {
    /// Appends one value; `None` when it was not recorded.
    pub fn push(&mut self, value: Option<i64>) {
        self.0.push(value.unwrap_or(UNKNOWN));
    }

    /// The value at `index`; `None` when it is unknown or was never appended.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.0.get(index).copied().filter(|&value| value != UNKNOWN)
    }

    /// Number of values in the column, known or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of known values.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.iter().filter(|&&value| value != UNKNOWN).count()
    }

    /// The highest known value.
    #[must_use]
    pub fn max(&self) -> Option<i64> {
        let known = self.0.iter().copied();
        known.filter(|&value| value != UNKNOWN).max()
    }

    /// Makes the column `length` values long, with `value` as its last value. Values between the
    /// old end of the column and the last value are unknown.
    pub fn push_as(&mut self, length: usize, value: i64) {
        self.0.resize(length.saturating_sub(1), UNKNOWN);
        self.0.push(value);
    }

    /// Whether the column contains no values.
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

/// The highest values of a track's counters; `None` when a counter was never known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Peaks {
    /// Highest number of bytes in live tensors. For host memory, the value counts all bytes that
    /// the kernel cannot reclaim.
    #[serde(rename = "peak_allocated_bytes")]
    pub allocated: Option<i64>,
    /// Highest number of bytes reserved by the caching allocator.
    #[serde(rename = "peak_reserved_bytes")]
    pub reserved: Option<i64>,
    /// Highest number of bytes in use on the device.
    #[serde(rename = "peak_used_bytes")]
    pub used: Option<i64>,
}

impl Peaks {
    /// The higher value of each counter in two sets of peaks.
    #[must_use]
    pub fn or_higher(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.max(other.allocated),
            reserved: self.reserved.max(other.reserved),
            used: self.used.max(other.used),
        }
    }
}

/// A named part of the training loop, such as an evaluation. Its times are by the clock of the
/// track's host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PhaseSpan {
    /// The phase's name as the user gave it.
    pub name: String,
    /// The names of the phases that contain this one, the outermost first.
    pub outer: Vec<String>,
    /// When the phase was entered, in nanoseconds since 1970.
    pub start_ns: i64,
    /// When the phase was left, in nanoseconds since 1970; `None` when the recording ends inside
    /// the phase.
    pub end_ns: Option<i64>,
}

/// A recorded out-of-memory error, with the known numbers of the failed request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomMark {
    /// When the error was recorded, in nanoseconds since 1970.
    pub at_ns: i64,
    /// The recorded reason, for example the exception's name.
    pub reason: String,
    /// Whether the program caught the error and went on.
    pub is_caught: bool,
    /// Whether the exception that ended the process was this error, was raised from it, or was
    /// raised while it was handled.
    pub ended_process: bool,
    /// Number of bytes that the failed request asked for.
    pub requested: Option<i64>,
    /// Bytes in live tensors when the request failed.
    pub allocated: Option<i64>,
    /// Bytes reserved by the caching allocator when the request failed.
    pub reserved: Option<i64>,
    /// Bytes in use on the device when the request failed.
    pub used: Option<i64>,
    /// Bytes free on the device when the request failed.
    pub free: Option<i64>,
    /// The most bytes that the process may use, if a limit below the size of the device was set.
    pub limit: Option<i64>,
    /// The innermost line of the user's code that requested the memory.
    pub site: Option<Site>,
    /// The calls that led to the site, the innermost first, without the site itself.
    pub call_path: Vec<Site>,
    /// The operation that failed, and the holders of memory when it failed.
    pub failure: Option<Failure>,
}

impl OomMark {
    /// The memory counters when the request failed.
    #[must_use]
    pub fn in_use(&self) -> Peaks {
        Peaks {
            allocated: self.allocated,
            reserved: self.reserved,
            used: self.used,
        }
    }
}

/// The resource whose memory is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(into = "ResourceKeys")]
pub enum Resource {
    /// Host memory of a process and its children.
    Host,
    /// One device, with its index.
    Device(i64),
}

/// The JSON object for a resource.
#[derive(Serialize, JsonSchema)]
struct ResourceKeys {
    /// The kind of resource: host memory of a process and its children, or one device.
    #[schemars(extend("enum" = ["host", "device"]))]
    resource: &'static str,
    /// The index of the device; null for host memory.
    device_id: Option<i64>,
}

impl From<Resource> for ResourceKeys {
    fn from(resource: Resource) -> Self {
        let (resource, device_id) = match resource {
            Resource::Host => ("host", None),
            Resource::Device(index) => ("device", Some(index)),
        };
        Self {
            resource,
            device_id,
        }
    }
}

/// How the memory of a device relates to host memory, for devices whose memory is not separate from
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMemory {
    /// The device has no memory of its own: the memory that it uses is host memory.
    Integrated,
    /// Device and host can each use the memory of the other.
    Coherent,
}

impl DeviceMemory {
    /// Parses how device memory relates to host memory, from the metadata of the event that begins
    /// a session.
    pub(super) fn of_start(metadata: &Map) -> Option<Self> {
        match metadata.text("device_memory")?.as_str()? {
            "integrated" => Some(Self::Integrated),
            "coherent" => Some(Self::Coherent),
            _ => None,
        }
    }
}

/// How `PyTorch`'s allocator was set up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocatorSettings {
    /// Major and minor version of `PyTorch`, if recorded.
    pub torch: Option<(u32, u32)>,
    /// The settings in `PYTORCH_CUDA_ALLOC_CONF`, or else in `PYTORCH_ALLOC_CONF`, each as
    /// `name:value`; empty if none are recorded.
    pub given: Vec<String>,
}

/// Longest text of settings that is read, in characters, and the characters that it may have.
const LONGEST_SETTINGS: usize = 400;
const OF_SETTINGS: &str = "_:.> ";

impl AllocatorSettings {
    /// Parses the settings from the metadata of the event that begins a session.
    pub(super) fn of_start(metadata: &Map) -> Self {
        let versions = metadata.object("versions");
        let torch = versions.and_then(|versions| text(versions, "torch", LONGEST_SETTINGS));
        let torch = torch.and_then(|version| {
            let mut parts = version.split('.').map(str::parse);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        });
        let variables = metadata.object("allocator_settings");
        let of = |name: &str| text(variables?, name, LONGEST_SETTINGS);
        let given = of("PYTORCH_CUDA_ALLOC_CONF").or_else(|| of("PYTORCH_ALLOC_CONF"));
        Self {
            torch,
            given: given.map_or_else(Vec::new, |text| settings(&text)),
        }
    }
}

/// The settings in a text such as `max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2]`;
/// empty if the text has characters that settings do not have.
fn settings(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' => {}
            _ if character.is_ascii_alphanumeric() || OF_SETTINGS.contains(character) => {}
            _ => return Vec::new(),
        }
        if let Some(last) = found.last_mut() {
            last.push(character);
        }
    }
    let trimmed = found.iter().map(|one| one.trim().to_owned());
    trimmed.filter(|one| one.contains(':')).collect()
}

/// The kind of recorder that wrote a track.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordedBy {
    /// Any recorder except `stormlog run`, such as a tracker in the program or beside it.
    #[default]
    Tracker,
    /// `stormlog run`, which records a program from start to end.
    Run,
}

/// The framework whose allocator the counters of a track describe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framework {
    /// No framework, or an unknown one.
    #[default]
    Unknown,
    /// `PyTorch`.
    Torch,
    /// JAX.
    Jax,
    /// `TensorFlow`.
    TensorFlow,
}

impl Framework {
    /// The framework whose counters a collector of this name reads.
    #[must_use]
    pub fn of_collector(name: &str) -> Self {
        let is_torch = ["cuda_tracker", "rocm_tracker", "mps_tracker"];
        match name {
            name if name.contains("jax") => Self::Jax,
            name if name.contains("tensorflow") => Self::TensorFlow,
            name if is_torch.iter().any(|end| name.ends_with(end)) => Self::Torch,
            _ => Self::Unknown,
        }
    }
}

/// If the allocator's counters were read at most this many nanoseconds before those of the device,
/// both count as read at the same time.
const READ_TOGETHER_NS: i64 = 5_000_000;
/// How many of the samples after a reading of the device are searched for the next reading of the
/// allocator's counters.
const MOST_LATER_SAMPLES: usize = 16;

/// The reading of the allocator's counters that corresponds to a reading of the device.
enum NextReserved {
    /// Allocator and device were read together.
    Same,
    /// The allocator was read earlier than the device. The value is the number of reserved bytes at
    /// the allocator's next reading.
    Later(i64),
    /// The allocator was read earlier than the device, and there is no later reading of its
    /// counters.
    None,
}

/// The samples of one session of one rank on one device, as columns with one value per sample.
///
/// Samples may be in any order and may have equal timestamps. In a column shorter than `t_ns`, the
/// values after its end are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// The global rank of the process.
    pub rank: u32,
    /// Device index; -1 is the CPU.
    pub device_id: i64,
    /// The session that recorded the samples of the track. A restarted rank has several sessions.
    pub session_id: String,
    /// The host of the process, whose clock gives the times of the samples; empty when unknown.
    pub host: String,
    /// The job id, if known.
    pub job_id: Option<String>,
    /// The pid of the recorded process.
    pub pid: i64,
    /// The kind of recorder that took the samples.
    pub recorder: RecordedBy,
    /// The framework whose allocator the samples describe.
    pub framework: Framework,
    /// How `PyTorch`'s allocator was set up, as far as it was recorded.
    pub allocator: AllocatorSettings,
    /// The sampling interval declared by the recorder, in nanoseconds; zero when none was declared.
    pub declared_interval_ns: i64,
    /// Samples up to this time (nanoseconds since 1970) are far apart, because the recorder removed
    /// others to limit the size of the recording (thinning); `None` without thinning.
    pub thinned_until_ns: Option<i64>,
    /// Time of each sample in Unix nanoseconds, by the clock of the rank's host.
    pub t_ns: Vec<i64>,
    /// Bytes in live tensors; for host memory, all bytes that the kernel cannot reclaim.
    pub allocated: Column,
    /// Highest number of bytes in live tensors since the program last reset the allocator's peak
    /// counter.
    pub peak: Column,
    /// Bytes reserved by the caching allocator.
    pub reserved: Column,
    /// When the allocator's counters were read, in nanoseconds since 1970. Unknown at samples that
    /// read the allocator and the device at the same time, `t_ns`.
    pub allocator_read_ns: Column,
    /// Bytes in use on the device, by all processes.
    pub used: Column,
    /// The part of `used` that belongs to the recorded process; empty when it was not measured.
    pub own: Column,
    /// Bytes of all processes that the driver lists for the device, recorded when the list does not
    /// contain the pid of the recorded process. In most containers it does not, because the driver
    /// uses the pids of another namespace. Empty if the driver lists the recorded process.
    pub unassigned: Column,
    /// How the memory of the device relates to host memory, if it was recorded.
    pub device_memory: Option<DeviceMemory>,
    /// Bytes free on the device.
    pub free: Column,
    /// Size of the device in bytes. When it is unknown, the sum of `used` and `free` replaces it.
    pub total: Column,
    /// The optimizer step that had just ended when the allocator was read; unknown at other times.
    pub step: Column,
    /// The number of the optimizer whose step had just ended at the sample; unknown at other times.
    pub optimizer: Column,
    /// Number of optimizer steps so far, at each sample.
    pub step_count: Column,
    /// Page-locked (pinned) host memory held by the framework, in bytes.
    pub pinned: Column,
    /// Anonymous host memory of the process tree, in bytes.
    pub anonymous: Column,
    /// Shared host memory of the process tree in bytes, with shared pages counted once.
    pub shared: Column,
    /// Phases, which are named parts of the training loop such as an evaluation, marked during the
    /// recording.
    pub phases: Vec<PhaseSpan>,
    /// Out-of-memory errors recorded on the track.
    pub ooms: Vec<OomMark>,
    /// The results of evidence windows (short times in which PyTorch records the stack of each
    /// allocation), or the reason why none could be opened.
    pub evidence: Option<WindowEvidence>,
    /// The last recorded ledger of the device: which owner holds how much of its memory.
    pub ledger: Option<Ledger>,
}

impl Track {
    /// The resource that the track measures.
    #[must_use]
    pub fn resource(&self) -> Resource {
        if self.device_id < 0 {
            Resource::Host
        } else {
            Resource::Device(self.device_id)
        }
    }

    /// Whether the track measures host memory and not a device.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.resource() == Resource::Host
    }

    /// Whether the process's share of the device is unknown because the driver lists processes
    /// under pids that do not match the recorded process.
    #[must_use]
    pub fn is_share_hidden(&self) -> bool {
        !self.unassigned.is_empty() && !self.knows_own()
    }

    /// Whether this is host memory recorded by `stormlog run`, which includes the start-up of the
    /// program.
    #[must_use]
    pub fn is_host_of_run(&self) -> bool {
        self.is_host() && self.recorder == RecordedBy::Run
    }

    /// The times of the first and the last sample of the track, in nanoseconds since 1970.
    #[must_use]
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        Some((*self.t_ns.iter().min()?, *self.t_ns.iter().max()?))
    }

    /// The indices of the samples in order of time.
    pub(crate) fn in_time_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.t_ns.len()).collect();
        if !self.t_ns.is_sorted() {
            order.sort_by_key(|&sample| self.t_ns[sample]);
        }
        order
    }

    /// Hidden memory at each sample: bytes in use on the device outside the allocator. If the
    /// process's share of the device is known, only that share counts, because growth of another
    /// process is not hidden memory of this one. Hidden memory is unknown at every sample if the
    /// counters of device and allocator contradict each other.
    ///
    /// If device and allocator were read at different times and the allocator's counters changed in
    /// between, only bounds of the hidden memory are known. Of the possible values, the one closest
    /// to the previous sample's value is used.
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
                            NextReserved::Same => Some(bytes),
                            NextReserved::None => before,
                            NextReserved::Later(next) => {
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

    /// The reserved bytes at the first reading of the allocator after the device was read, if the
    /// two were not read together.
    fn next_reserved(&self, sample: usize) -> NextReserved {
        let at = self.t_ns[sample];
        let read_at = |i: usize| self.allocator_read_ns.get(i).unwrap_or(self.t_ns[i]);
        if at.saturating_sub(read_at(sample)) <= READ_TOGETHER_NS {
            return NextReserved::Same;
        }
        let mut later = (sample + 1..self.t_ns.len()).take(MOST_LATER_SAMPLES);
        let next = later.find(|&i| read_at(i) >= at);
        let next = next.and_then(|i| self.reserved.get(i));
        next.map_or(NextReserved::None, NextReserved::Later)
    }

    /// Bytes on the device that do not belong to this process but to other processes and the
    /// driver, at each sample. `None` when the process's share of the device is unknown.
    #[must_use]
    pub fn other_processes_bytes(&self) -> Vec<Option<i64>> {
        let is_known = self.knows_own();
        (0..self.t_ns.len())
            .map(|sample| self.others_at(sample).filter(|_| is_known))
            .collect()
    }

    /// The highest values of a track: bytes in live tensors, reserved by the allocator, and in use
    /// on the device. The memory use when a request failed counts too, because there may be no
    /// sample from that time.
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

    /// The size of the measured resource: the device, or the host memory that the process may use.
    /// If it was not recorded, the highest sum of `used` and `free` is returned.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<i64> {
        let sums = (0..self.used.len())
            .filter_map(|i| Some(self.used.get(i)?.saturating_add(self.free.get(i)?)));
        self.total.max().filter(|&total| total > 0).or(sums.max())
    }

    /// Bytes on the device that do not belong to this process at a sample; `None` when the process's
    /// share is unknown.
    pub(crate) fn others_at(&self, sample: usize) -> Option<i64> {
        // The counters are read one after the other, so the share of the process may exceed the use
        // of the whole device; the result is then zero.
        let others = self.used.get(sample)?.saturating_sub(self.own.get(sample)?);
        Some(others.max(0))
    }

    /// Whether the process's own share of the device is known at nearly every sample; a share known
    /// only in some samples is not used, because mixing it with the use of the whole device would
    /// look like jumps.
    #[must_use]
    pub fn knows_own(&self) -> bool {
        if self.own.is_empty() {
            return false;
        }
        let used = self.used.known();
        self.own.known() >= used - used / 50
    }
}

/// The tracks of devices or, when none of the tracks is one of a device, all of them.
pub(crate) fn devices_or_all(tracks: Vec<&Track>) -> Vec<&Track> {
    let devices = tracks.iter().copied().filter(|track| !track.is_host());
    let devices: Vec<&Track> = devices.collect();
    if devices.is_empty() { tracks } else { devices }
}

/// Converts a number of bytes or nanoseconds to `f64` for calculations; large numbers are rounded.
pub(crate) fn float(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_allocator_are_read() {
        let given = "max_split_size_mb:64, roundup_power2_divisions:[256:1,512:2],backend:native";
        assert_eq!(
            settings(given),
            [
                "max_split_size_mb:64",
                "roundup_power2_divisions:[256:1,512:2]",
                "backend:native"
            ]
        );
        for nonsense in ["", ",", "x", "a:b\u{1b}[31m", "a:$(reboot)", "a:`b`"] {
            assert!(settings(nonsense).is_empty(), "{nonsense}");
        }
    }

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
            // The second and third reading of the allocator are half a second older than the
            // readings of the device.
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
