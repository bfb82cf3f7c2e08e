//! The sections of an allocator page below the timeline: totals, the map of segments, holders, live
//! blocks.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use askama::Template;
use stormlog_analysis::allocator_snapshot::{Account, Holder, LiveBlock, SegmentUse};
use stormlog_format::counted;

use super::AllocatorLimits;
use crate::bytes::{grouped, human};
use crate::label::clean;

/// The width of a row of the segment map in SVG units, and the largest number of blocks drawn in a
/// row. If a segment has more blocks than this limit, only the largest are drawn.
const WIDTH: f64 = 1000.0;
const MOST_BLOCKS: usize = 400;
/// The number of colours with which the segment map distinguishes holders. On this page a holder is
/// the line of code that allocated a block.
const COLOURS: u64 = 8;

#[derive(Template)]
#[template(path = "allocator_sections.html")]
pub(super) struct Sections {
    totals: Vec<(&'static str, String)>,
    segments: Vec<SegmentRow>,
    segments_left_out: usize,
    holders: Vec<HolderRow>,
    holders_have_history: bool,
    holders_have_names: bool,
    live: Vec<LiveRow>,
    live_left_out: usize,
}

struct SegmentRow {
    address: String,
    facts: String,
    width: String,
    blocks: Vec<BlockRect>,
}

struct BlockRect {
    x: String,
    width: String,
    colour: String,
    title: String,
}

struct HolderRow {
    place: String,
    names: String,
    at_peak: String,
    now: String,
    allocations: String,
    in_all: String,
}

struct LiveRow {
    address: String,
    size: String,
    name: String,
    shape: String,
    dtype: String,
    place: String,
    frames: Vec<String>,
    pool: String,
}

impl Sections {
    pub(super) fn of(account: &Account, limits: &AllocatorLimits) -> Self {
        let largest = account.segments.first().map_or(1, |one| one.total_bytes);
        let segments = account.segments.iter().take(limits.segments);
        let holders = account.holders.iter().take(limits.holders);
        let live: Vec<LiveRow> = account
            .live
            .iter()
            .take(limits.live)
            .map(live_row)
            .collect();
        Self {
            totals: totals(account),
            segments: segments.map(|one| segment_row(one, largest)).collect(),
            segments_left_out: account.segments.len().saturating_sub(limits.segments),
            holders: holders.map(holder_row).collect(),
            holders_have_history: !account.moments.is_empty(),
            holders_have_names: account.holders.iter().any(|one| !one.names.is_empty()),
            live_left_out: account.totals.live_blocks.saturating_sub(live.len()),
            live,
        }
    }
}

fn totals(account: &Account) -> Vec<(&'static str, String)> {
    let totals = &account.totals;
    let peak = |bytes: Option<i64>| bytes.map_or("not recorded".to_owned(), human);
    let mut rows = vec![
        ("peak of live tensors", peak(totals.peak_requested_bytes)),
        ("live now", human(totals.requested_bytes)),
        ("reserved now", human(totals.reserved_bytes)),
        ("peak reserved", peak(totals.peak_reserved_bytes)),
        ("reserved, unused", human(totals.idle_bytes())),
        (
            "lost to rounding",
            human(
                totals
                    .allocated_bytes
                    .saturating_sub(totals.requested_bytes),
            ),
        ),
        (
            "named live blocks",
            format!(
                "{} of {}",
                grouped(totals.named_blocks),
                grouped(totals.live_blocks)
            ),
        ),
    ];
    if totals.ooms > 0 {
        rows.push(("out of memory", counted(totals.ooms, "time")));
    }
    rows
}

fn segment_row(segment: &SegmentUse, largest: i64) -> SegmentRow {
    let total = segment.total_bytes.max(1) as f64;
    // A segment is drawn at least 12 SVG units wide, so that the smallest one is still visible and
    // clickable.
    let width = (total / largest.max(1) as f64 * WIDTH).clamp(12.0, WIDTH);
    let used = segment.allocated_bytes as f64 / total * 100.0;
    let stream = segment.stream.map(|stream| format!(", stream {stream}"));
    let scale = width / total;
    let (drawn, left_out) = blocks_to_draw(segment);
    let left_out = (left_out > 0).then(|| format!(", {left_out} smaller blocks not drawn"));
    let rectangle = |start: i64, bytes: i64, holder: &str| {
        let x = (start as f64 * scale).clamp(0.0, width);
        let end = (start.saturating_add(bytes) as f64 * scale).clamp(x, width);
        BlockRect {
            x: format!("{x:.1}"),
            width: format!("{:.1}", (end - x).max(0.6)),
            colour: format!("c{}", colour(holder)),
            title: format!("{} {}", human(bytes), clean(holder)),
        }
    };
    SegmentRow {
        address: format!("{:#x}", segment.address),
        facts: clean(&format!(
            "{}, {used:.0} % in use, {}{}{}",
            human(segment.total_bytes),
            segment.pool,
            stream.unwrap_or_default(),
            left_out.unwrap_or_default()
        )),
        width: format!("{width:.1}"),
        blocks: drawn
            .into_iter()
            .map(|(start, bytes, holder)| rectangle(start, bytes, holder))
            .collect(),
    }
}

/// The largest live blocks of a segment of the allocator in the order of their addresses, and the
/// number of blocks left out. The number of drawn blocks is limited because an expandable segment
/// (`expandable_segments`) can contain all blocks of a device.
fn blocks_to_draw(segment: &SegmentUse) -> (Vec<(i64, i64, &str)>, usize) {
    let mut live: Vec<(i64, i64, &str)> = segment
        .blocks
        .iter()
        .filter_map(|(start, bytes, holder)| Some((*start, *bytes, holder.as_deref()?)))
        .collect();
    let left_out = live.len().saturating_sub(MOST_BLOCKS);
    if left_out > 0 {
        live.sort_by_key(|(start, bytes, _)| (std::cmp::Reverse(*bytes), *start));
        live.truncate(MOST_BLOCKS);
        live.sort_by_key(|(start, ..)| *start);
    }
    (live, left_out)
}

/// The colour of a holder, computed from its name so that it is the same in every segment.
fn colour(holder: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    holder.hash(&mut hasher);
    hasher.finish() % COLOURS
}

fn holder_row(holder: &Holder) -> HolderRow {
    HolderRow {
        place: clean(&holder.place),
        names: clean(&holder.names.join(", ")),
        at_peak: human(holder.at_peak_bytes),
        now: human(holder.now_bytes),
        allocations: grouped(holder.allocations),
        in_all: human(holder.allocated_bytes),
    }
}

fn live_row(block: &LiveBlock) -> LiveRow {
    let owner = &block.owner;
    let text = |value: Option<&String>| value.map_or(String::new(), |value| clean(value));
    LiveRow {
        address: block
            .address
            .map_or("unknown".to_owned(), |address| format!("{address:#x}")),
        size: human(block.bytes),
        name: clean(&owner.names.join(", ")),
        shape: text(owner.shape.as_ref()),
        dtype: text(owner.dtype.as_ref()),
        place: text(block.place.as_ref()),
        frames: block.frames.iter().map(|frame| clean(frame)).collect(),
        pool: clean(&block.pool),
    }
}
