//! The allocator's memory as it is now: segments, and the blocks in them.

use super::owners::{Owner, Owners};
use super::read::{Block, Segment};
use super::stack::{Frame, shortened};

/// A segment and its blocks.
#[derive(Clone, Debug)]
pub struct SegmentUse {
    /// Where it is.
    pub address: u64,
    /// Its size.
    pub total_bytes: i64,
    /// What live blocks take of it.
    pub allocated_bytes: i64,
    /// `small` or `large`.
    pub pool: String,
    /// The stream.
    pub stream: Option<i64>,
    /// Its blocks in order: where they begin in it, their size, and what holds them, unless
    /// they are free.
    pub blocks: Vec<(i64, i64, Option<String>)>,
}

/// A block that is in use.
#[derive(Clone, Debug)]
pub struct LiveBlock {
    /// Where it is, if the snapshot says so.
    pub address: Option<u64>,
    /// What it takes.
    pub bytes: i64,
    /// The tensors on it.
    pub owner: Option<Owner>,
    /// The line of the program that asked for it.
    pub place: Option<String>,
    /// That line, and those that led there.
    pub frames: Vec<String>,
    /// The pool of its segment.
    pub pool: String,
}

/// A segment's size; that of its blocks where it does not say.
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

/// Whether a tensor has the block; one without a state is taken for such.
pub(super) fn is_live(block: &Block<'_>) -> bool {
    matches!(block.state, "active_allocated" | "")
}

pub(super) fn requested(block: &Block<'_>) -> i64 {
    let asked = block.history.0.first().and_then(|one| one.real_size);
    block.requested_size.or(asked).unwrap_or(block.size).max(0)
}

/// Where a block is; older versions of PyTorch record that only with a history.
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
        owner: owner_of(block, owners).cloned(),
        place: place_of(block),
        frames: frames.iter().map(Frame::label).collect(),
        pool: shortened(segment.pool).to_owned(),
    }
}
