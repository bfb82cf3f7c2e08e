//! Parses the pickle of a snapshot. Unknown keys are skipped, missing values are unknown, and a
//! value of an unexpected type is an error with its position in the file. Strings are borrowed from
//! the file's bytes, because a small pickle can refer to a long string many times.

use deser::ErrorKind;
use deser_pickle::DeserializerConfig;

use super::list::{Item, List};
use super::stack::Stack;
use super::{SnapshotError, values};

/// Maximum number of repeated values per byte of the pickle. A value is repeated when the pickle
/// refers to it instead of storing it again: PyTorch writes a stack frame once and refers to it
/// with two to five bytes, and each reference repeats the frame's three keys and values.
const REPEATED_PER_BYTE: usize = 8;
/// Maximum number of repeated values in a pickle; parsing this many takes some seconds. A history
/// of 100,000 entries with stacks of a hundred frames has fewer repeated values.
const MOST_REPEATED: usize = 1 << 27;

/// Maximum number of devices in a snapshot, which is the number that PyTorch supports.
const MOST_DEVICES: usize = 128;

/// The parsed snapshot of a CUDA allocator: the memory that it held when the snapshot was written,
/// and its recorded actions before.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub struct Snapshot<'a> {
    segments: Option<List<Segment<'a>>>,
    device_traces: Option<List<List<Entry<'a>>>>,
    pub(super) external_annotations: List<Annotation<'a>>,
}

/// A segment: memory that the allocator reserved on the device in one piece.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Segment<'a> {
    device: Option<i64>,
    pub(super) address: u64,
    pub(super) total_size: i64,
    pub(super) stream: Option<i64>,
    #[deser(rename = "segment_type")]
    pub(super) pool: &'a str,
    pub(super) blocks: List<Block<'a>>,
}

/// A block: a part of a segment that a tensor uses or that is free, as `state` says.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Block<'a> {
    pub(super) address: Option<u64>,
    pub(super) size: i64,
    pub(super) requested_size: Option<i64>,
    pub(super) state: &'a str,
    pub(super) frames: Stack<'a>,
    pub(super) history: List<Earlier<'a>>,
}

/// An earlier allocation in a block. Older versions of PyTorch record the address, size and stack
/// of an allocation here and not in [`Block`].
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Earlier<'a> {
    pub(super) addr: Option<u64>,
    pub(super) real_size: Option<i64>,
    pub(super) frames: Stack<'a>,
}

/// One entry of the allocator's recorded history (the trace of a device), such as an allocation.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Entry<'a> {
    pub(super) action: &'a str,
    pub(super) addr: Option<u64>,
    pub(super) size: i64,
    pub(super) time_us: Option<i64>,
    pub(super) frames: Stack<'a>,
}

/// The start or end of a named time span, such as an optimizer step.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Annotation<'a> {
    pub(super) stage: &'a str,
    pub(super) name: &'a str,
    pub(super) device: Option<i64>,
    pub(super) time_us: Option<i64>,
}

impl Item for Segment<'_> {}
impl Item for Block<'_> {}
impl Item for Earlier<'_> {}
impl Item for Entry<'_> {}
impl Item for Annotation<'_> {}

impl<'a> Snapshot<'a> {
    /// Parses a snapshot, or a list of segments as written by older versions of PyTorch.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        if bytes.len() as u64 > super::MOST_BYTES {
            return Err(SnapshotError::TooLarge);
        }
        values::check(super::MOST_VALUES, bytes)?;
        let mut config = DeserializerConfig::new();
        let repeated = bytes.len().saturating_mul(REPEATED_PER_BYTE);
        config.set_max_shared_events(repeated.min(MOST_REPEATED));
        let snapshot = config.from_slice(bytes).or_else(|error| {
            if error.kind() == ErrorKind::LimitExceeded {
                return Err(SnapshotError::TooRepetitive);
            }
            let listed = config.from_slice(bytes).map(|segments| Self {
                segments: Some(segments),
                ..Self::default()
            });
            listed.map_err(|_| SnapshotError::Malformed(error.to_string()))
        })?;
        // The memory of each device is analyzed separately, so the number of devices is limited.
        if snapshot.devices().len() > MOST_DEVICES {
            let text = format!("the snapshot has more than {MOST_DEVICES} devices");
            return Err(SnapshotError::Malformed(text));
        }
        Ok(snapshot)
    }

    /// Whether the document is a snapshot with content; a dictionary with none of a snapshot's keys
    /// parses as an empty snapshot.
    pub fn has_content(&self) -> bool {
        self.segments.is_some() || self.device_traces.is_some()
    }

    /// The segments of a device in a snapshot. A segment without a device belongs to device 0, or
    /// to the requested device if the snapshot has only one device.
    pub(super) fn segments_of(&self, device: i64) -> Vec<&Segment<'a>> {
        let is_single_device = self.devices().len() < 2;
        let is_of_device = |segment: &&Segment<'_>| match segment.device {
            Some(one) => one == device,
            None => is_single_device || device == 0,
        };
        self.segments().iter().filter(is_of_device).collect()
    }

    fn segments(&self) -> &[Segment<'a>] {
        self.segments.as_ref().map_or(&[], |segments| &segments.0)
    }

    pub(super) fn trace(&self, device: i64) -> &[Entry<'a>] {
        let traces = self.traces();
        let index = usize::try_from(device).ok();
        let trace = index.and_then(|index| traces.get(index));
        trace.map_or(&[], |trace| &trace.0)
    }

    fn traces(&self) -> &[List<Entry<'a>>] {
        self.device_traces.as_ref().map_or(&[], |traces| &traces.0)
    }

    /// The indices of the devices that have segments or recorded actions, in ascending order.
    pub fn devices(&self) -> Vec<i64> {
        let holding = self.segments().iter();
        let holding = holding.map(|segment| segment.device.unwrap_or(0));
        let traced = self.traces().iter().enumerate();
        let traced = traced.filter(|(_, trace)| !trace.0.is_empty());
        let traced = traced.filter_map(|(index, _)| i64::try_from(index).ok());
        let mut devices: Vec<i64> = holding.chain(traced).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }
}
