//! The memory that PyTorch's allocator held at the time of the snapshot: segments reserved on the
//! device, and the blocks in them that are used or free.

use schemars::JsonSchema;
use serde::Serialize;

use super::owners::{Owner, Owners};
use super::read::{Block, Segment};
use super::stack::{Frame, shortened};

/// A segment, with its blocks.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SegmentUse {
    /// Address of the segment.
    pub address: u64,
    /// Size of the segment in bytes.
    pub total_bytes: i64,
    /// Bytes in live blocks.
    pub allocated_bytes: i64,
    /// The allocator's pool that the segment belongs to: `small` or `large`.
    pub pool: String,
    /// The CUDA stream that the segment belongs to.
    pub stream: Option<i64>,
    /// The blocks of the segment in order: offset in the segment, size, and the holder of the block
    /// (`None` when the block is free).
    #[serde(skip)]
    pub blocks: Vec<(i64, i64, Option<String>)>,
}

/// A block in use.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LiveBlock {
    /// Address of the block, if the snapshot records it.
    pub address: Option<u64>,
    /// Size of the block in bytes.
    #[serde(rename = "size_bytes")]
    pub bytes: i64,
    /// The tensors whose storage is in the block.
    #[serde(flatten)]
    pub owner: Owner,
    /// The line of the program that allocated the block.
    pub place: Option<String>,
    /// The call stack of the allocation: the line that allocated the block, and its callers.
    pub frames: Vec<String>,
    /// The pool of the block's segment.
    pub pool: String,
}

/// The size of a segment in bytes. When the snapshot does not record this size, the result is the
/// sum of the sizes of the segment's blocks.
pub(super) fn total_of(segment: &Segment<'_>) -> i64 {
    if segment.total_size > 0 {
        return segment.total_size;
    }
    let sizes = segment.blocks.0.iter().map(|block| block.size.max(0));
    sizes.fold(0, i64::saturating_add)
}

pub(super) fn live_bytes(segment: &Segment<'_>) -> i64 {
    let live = segment.blocks.0.iter().filter(|block| is_live(block));
    live.map(|block| block.size.max(0))
        .fold(0, i64::saturating_add)
}

/// Whether a tensor uses the block. A block whose state is not recorded counts as used.
pub(super) fn is_live(block: &Block<'_>) -> bool {
    matches!(block.state, "active_allocated" | "")
}

pub(super) fn requested(block: &Block<'_>) -> i64 {
    let earlier = block.history.0.first().and_then(|one| one.real_size);
    let requested = block.requested_size.or(earlier);
    requested.unwrap_or(block.size).max(0)
}

/// Address of a block. Older versions of PyTorch record the address only in the block's history.
pub(super) fn address_of(block: &Block<'_>) -> Option<u64> {
    let earlier = || block.history.0.first().and_then(|one| one.addr);
    block.address.or_else(earlier)
}

pub(super) fn owner_of<'o>(block: &Block<'_>, owners: &'o Owners) -> Option<&'o Owner> {
    let earlier = block.history.0.iter().filter_map(|one| one.addr);
    let mut addresses = block.address.into_iter().chain(earlier);
    addresses.find_map(|address| owners.at(address))
}

pub(super) fn place_of(block: &Block<'_>) -> Option<String> {
    let earlier = block.history.0.iter().find_map(|one| one.frames.place());
    block.frames.place().or(earlier)
}

pub(super) fn live_block(block: &Block<'_>, segment: &Segment<'_>, owners: &Owners) -> LiveBlock {
    let earlier = block.history.0.first().map(|one| &one.frames.0);
    let frames = match earlier {
        Some(frames) if block.frames.0.is_empty() => frames,
        _ => &block.frames.0,
    };
    LiveBlock {
        address: address_of(block),
        bytes: block.size.max(0),
        owner: owner_of(block, owners).cloned().unwrap_or_default(),
        place: place_of(block),
        frames: frames.iter().map(Frame::label).collect(),
        pool: shortened(segment.pool).to_owned(),
    }
}
