//! The pickle of a snapshot as structures. Unknown keys are passed over, missing ones are
//! unknown, and what has another shape is refused with the place in the file.

use std::borrow::Cow;

use deser_pickle::DeserializerConfig;

use super::list::List;
use super::stack::Stack;
use super::{SnapshotError, values};

/// How many values may be told again for each byte: PyTorch writes a frame once and refers to it
/// with two to five bytes, which tells its three keys and values again.
const REPEATED_PER_BYTE: usize = 8;

/// The state and the history of the allocator.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub struct Snapshot<'a> {
    pub(super) segments: List<Segment<'a>>,
    pub(super) device_traces: List<List<Entry<'a>>>,
    pub(super) external_annotations: List<Annotation<'a>>,
}

/// Memory that the allocator got from the device in one piece.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Segment<'a> {
    pub(super) device: Option<i64>,
    pub(super) address: u64,
    pub(super) total_size: i64,
    pub(super) stream: Option<i64>,
    #[deser(rename = "segment_type")]
    pub(super) pool: Cow<'a, str>,
    pub(super) blocks: List<Block<'a>>,
}

/// A part of a segment.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Block<'a> {
    pub(super) address: Option<u64>,
    pub(super) size: i64,
    pub(super) requested_size: Option<i64>,
    pub(super) state: Cow<'a, str>,
    pub(super) frames: Stack<'a>,
    pub(super) history: List<Earlier<'a>>,
}

/// What older versions of PyTorch know of a block.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Earlier<'a> {
    pub(super) addr: Option<u64>,
    pub(super) real_size: Option<i64>,
    pub(super) frames: Stack<'a>,
}

/// Something that the allocator did.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Entry<'a> {
    pub(super) action: Cow<'a, str>,
    pub(super) addr: Option<u64>,
    pub(super) size: i64,
    pub(super) time_us: Option<i64>,
    pub(super) frames: Stack<'a>,
}

/// The beginning or the end of a named stretch of time, such as a step of the optimizer.
#[derive(Debug, Default, deser::Deserialize)]
#[deser(default)]
pub(super) struct Annotation<'a> {
    pub(super) stage: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) device: Option<i64>,
    pub(super) time_us: Option<i64>,
}

impl<'a> Snapshot<'a> {
    /// Reads a snapshot, or a list of segments, as older versions of PyTorch gave.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SnapshotError> {
        if bytes.len() as u64 > super::MOST_BYTES {
            return Err(SnapshotError::TooLarge);
        }
        if !values::are_at_most(super::MOST_VALUES, bytes) {
            return Err(SnapshotError::TooManyValues);
        }
        let mut config = DeserializerConfig::new();
        config.set_max_shared_events(bytes.len().saturating_mul(REPEATED_PER_BYTE));
        config.from_slice(bytes).or_else(|error| {
            let listed = config.from_slice(bytes).map(|segments| Self {
                segments,
                ..Self::default()
            });
            listed.map_err(|_| SnapshotError::Malformed(error.to_string()))
        })
    }

    /// The devices that hold memory or have a history, in order.
    pub fn devices(&self) -> Vec<i64> {
        let holding = self
            .segments
            .0
            .iter()
            .map(|segment| segment.device.unwrap_or(0));
        let traced = self.device_traces.0.iter().enumerate();
        let traced = traced.filter(|(_, trace)| !trace.0.is_empty());
        let traced = traced.filter_map(|(place, _)| i64::try_from(place).ok());
        let mut devices: Vec<i64> = holding.chain(traced).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }
}
