//! Summarizes the memory of one device in a snapshot: totals, memory use over time, segments, live
//! memory, and the lines of the program that hold most of it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::blocks::{
    LiveBlock, SegmentUse, address_of, is_live, live_block, live_bytes, owner_of, place_of,
    requested, total_of,
};
use super::history::{Action, AllocatorMoment, History};
use super::holders::{Holder, Lines};
use super::owners::Owners;
use super::read::{Block, Segment, Snapshot};
use super::spans::{Span, spans_of};
use super::stack::shortened;

/// Maximum number of live blocks (blocks that tensors use) in [`Account::live`]; the largest blocks
/// are kept.
const MOST_LIVE: usize = 1000;

/// The label for memory that was allocated before the history begins and has been freed since.
const BEFORE: &str = "allocated before the recorded history begins";
/// The label for memory whose allocation has no recorded stack, although the snapshot has stacks of
/// other allocations: PyTorch records stacks only for allocations made from a line of Python.
const NO_LINE: &str = "allocated by no line of Python (a backward pass, or C++)";
const NO_STACK: &str = "no stack recorded";

/// What a snapshot of PyTorch's allocator says about the memory of one device: how much is used,
/// how that changed over time, and which lines of the program hold it.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// The CUDA index of the device.
    pub device: i64,
    /// Sums over the device's segments and blocks, such as reserved and allocated bytes.
    pub totals: Totals,
    /// The recorded allocations, frees and other actions of the allocator, in the order in which
    /// they happened.
    pub moments: Vec<AllocatorMoment>,
    /// Whether the snapshot records the times of the allocator's actions. Without times, only the
    /// order of the actions is known.
    pub has_times: bool,
    /// Time spans that PyTorch recorded with a name, such as optimizer steps.
    pub spans: Vec<Span>,
    /// The memory that the allocator has reserved on the device, as segments, the largest first.
    pub segments: Vec<SegmentUse>,
    /// The blocks that tensors use, the largest first, at most a thousand.
    pub live: Vec<LiveBlock>,
    /// The lines of the program that held the most memory at the peak, at most fifty.
    pub holders: Vec<Holder>,
    /// The texts of all program lines that allocated memory; `holders` has only the lines that held
    /// the most.
    places: Vec<String>,
    /// Maps the index of an allocation in the snapshot's trace (the recorded history) to the index
    /// of its line in `places`.
    place_of_entry: HashMap<usize, usize>,
    /// Maps the index of an allocation in `moments` to the name of the tensor that uses the memory.
    name_of_moment: HashMap<usize, String>,
}

/// Totals of the memory of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// Bytes that the allocator has reserved on the device.
    pub reserved_bytes: i64,
    /// Bytes in blocks that tensors use.
    pub allocated_bytes: i64,
    /// Bytes that the program requested for the live blocks, without the allocator's rounding.
    pub requested_bytes: i64,
    /// Bytes that the program has freed but the device still uses.
    pub awaiting_free_bytes: i64,
    /// Highest number of bytes requested by live tensors during the recorded history.
    pub peak_requested_bytes: Option<i64>,
    /// Highest number of reserved bytes during the recorded history.
    pub peak_reserved_bytes: Option<i64>,
    /// Number of segments.
    #[serde(skip)]
    pub segments: usize,
    /// Number of live blocks.
    pub live_blocks: usize,
    /// Number of live blocks whose tensors have a name.
    pub named_blocks: usize,
    /// Number of entries in the allocator's history.
    pub events: usize,
    /// Number of out-of-memory errors.
    pub ooms: usize,
}

impl Totals {
    /// Bytes that the allocator has reserved on the device, but that no tensor uses and that are
    /// not waiting to be freed.
    pub fn idle_bytes(&self) -> i64 {
        let used = self
            .allocated_bytes
            .saturating_add(self.awaiting_free_bytes);
        self.reserved_bytes.saturating_sub(used).max(0)
    }
}

impl Account {
    /// Computes the summary of one device from a snapshot. The names of tensors come from `owners`.
    pub fn of(snapshot: &Snapshot<'_>, owners: &Owners, device: i64) -> Self {
        let segments = snapshot.segments_of(device);
        let trace = snapshot.trace(device);
        let mut totals = totals_of(&segments);
        let history = History::of(trace, totals.requested_bytes, totals.reserved_bytes);
        totals.events = trace.len();
        let ooms = history.moments.iter();
        totals.ooms = ooms.filter(|one| one.action == Action::Oom).count();
        let peak = history.peak();
        let levels = |get: fn(&AllocatorMoment) -> i64| history.moments.iter().map(get).max();
        totals.peak_requested_bytes = levels(|moment| moment.allocated_bytes);
        totals.peak_reserved_bytes = levels(|moment| moment.reserved_bytes);

        let mut account = Self {
            device,
            has_times: history.has_times,
            spans: spans_of(snapshot, device),
            ..Self::default()
        };
        let has_stacks = trace.iter().any(|entry| !entry.frames.0.is_empty())
            || blocks_of(&segments).any(|block| place_of(block).is_some());
        let mut lines = Lines::without_place(if has_stacks { NO_LINE } else { NO_STACK });
        for moment in &history.moments {
            if moment.action == Action::Alloc
                && let Some(place) = trace[moment.entry].frames.place()
            {
                let line = lines.named(place);
                account.place_of_entry.insert(moment.entry, line);
            }
        }
        account.add_history(&history, peak, &mut lines);
        account.add_blocks(&segments, &history, owners, &mut lines);
        let known: i64 = lines.sum_at_peak();
        let at_peak = totals.peak_requested_bytes.unwrap_or(0);
        // Memory held at the peak whose line is unknown gets an entry of its own, so that all
        // entries add up to the peak.
        if at_peak > known && history.held_before > 0 {
            let line = lines.named(BEFORE.to_owned());
            lines.holders[line].at_peak_bytes = at_peak - known;
        }
        totals.named_blocks = count_named(&segments, owners);
        account.totals = totals;
        account.moments = history.moments;
        account.places = lines.holders.iter().map(|one| one.place.clone()).collect();
        account.holders = lines.largest();
        account
    }

    /// The name of the tensor for which the allocation `moments[index]` was made, if the tensor is
    /// still alive and its name is known.
    pub fn name_at(&self, index: usize) -> Option<&str> {
        self.name_of_moment.get(&index).map(String::as_str)
    }

    /// The line of the program that caused an action of the allocator, if known.
    pub fn place_at(&self, moment: &AllocatorMoment) -> Option<&str> {
        let line = self.place_of_entry.get(&moment.entry)?;
        self.places.get(*line).map(String::as_str)
    }

    fn add_history(&self, history: &History, peak: Option<usize>, lines: &mut Lines) {
        for (index, moment) in history.moments.iter().enumerate() {
            if moment.action != Action::Alloc {
                continue;
            }
            let line = match self.place_of_entry.get(&moment.entry) {
                Some(line) => *line,
                None => lines.nowhere(),
            };
            let holder = &mut lines.holders[line];
            holder.allocations += 1;
            holder.allocated_bytes = holder.allocated_bytes.saturating_add(moment.bytes);
            let lives_at_peak = peak
                .is_some_and(|peak| index <= peak && moment.ended.is_none_or(|ended| ended > peak));
            if lives_at_peak {
                holder.at_peak_bytes = holder.at_peak_bytes.saturating_add(moment.bytes);
            }
        }
    }

    fn add_blocks(
        &mut self,
        segments: &[&Segment<'_>],
        history: &History,
        owners: &Owners,
        lines: &mut Lines,
    ) {
        let open = history.still_open();
        let mut live: Vec<(&Block<'_>, &Segment<'_>)> = Vec::new();
        for segment in segments {
            let mut blocks = Vec::new();
            let mut offset = 0_i64;
            for block in &segment.blocks.0 {
                let start = block
                    .address
                    .and_then(|address| address.checked_sub(segment.address))
                    .and_then(|start| i64::try_from(start).ok())
                    .unwrap_or(offset);
                let size = block.size.max(0);
                offset = start.saturating_add(size);
                let holds = is_live(block).then(|| {
                    live.push((block, segment));
                    self.add_live(block, history, &open, owners, lines)
                });
                blocks.push((start, size, holds));
            }
            self.segments.push(SegmentUse {
                address: segment.address,
                total_bytes: total_of(segment),
                allocated_bytes: live_bytes(segment),
                pool: shortened(segment.pool).to_owned(),
                stream: segment.stream,
                blocks,
            });
        }
        self.segments
            .sort_by_key(|segment| (std::cmp::Reverse(segment.total_bytes), segment.address));
        live.sort_by_key(|(block, _)| (std::cmp::Reverse(block.size), block.address));
        self.live = live
            .into_iter()
            .take(MOST_LIVE)
            .map(|(block, segment)| live_block(block, segment, owners))
            .collect();
    }

    /// Adds a live block to the program line that allocated the block, and returns that line as the
    /// block's label.
    fn add_live(
        &mut self,
        block: &Block<'_>,
        history: &History,
        open: &HashMap<u64, usize>,
        owners: &Owners,
        lines: &mut Lines,
    ) -> String {
        let owner = owner_of(block, owners);
        let name = owner.and_then(|owner| owner.names.first());
        let moment = address_of(block).and_then(|address| open.get(&address));
        if let (Some(moment), Some(name)) = (moment, name) {
            self.name_of_moment.insert(*moment, name.clone());
        }
        let line = match (moment, place_of(block), name) {
            // The recorded history has already counted this allocation, so it is not added again.
            (Some(moment), ..) => {
                let entry = history.moments[*moment].entry;
                let line = self.place_of_entry.get(&entry).copied();
                line.unwrap_or_else(|| lines.nowhere())
            }
            (None, Some(place), _) => lines.named(place),
            (None, None, Some(name)) => lines.named(name.clone()),
            (None, None, None) => lines.nowhere(),
        };
        let holder = &mut lines.holders[line];
        let bytes = requested(block);
        holder.now_bytes = holder.now_bytes.saturating_add(bytes);
        if moment.is_none() {
            // The block was allocated before the history begins and still exists, so it existed at
            // the peak too.
            holder.at_peak_bytes = holder.at_peak_bytes.saturating_add(bytes);
        }
        holder.add_name(name);
        name.cloned().unwrap_or(holder.place.clone())
    }
}

fn blocks_of<'a>(segments: &[&'a Segment<'a>]) -> impl Iterator<Item = &'a Block<'a>> {
    segments.iter().flat_map(|segment| &segment.blocks.0)
}

fn count_named(segments: &[&Segment<'_>], owners: &Owners) -> usize {
    blocks_of(segments)
        .filter(|block| is_live(block))
        .filter(|block| owner_of(block, owners).is_some_and(|one| !one.names.is_empty()))
        .count()
}

fn totals_of(segments: &[&Segment<'_>]) -> Totals {
    let mut totals = Totals {
        segments: segments.len(),
        ..Totals::default()
    };
    let add = |sum: &mut i64, bytes: i64| *sum = sum.saturating_add(bytes.max(0));
    for segment in segments {
        add(&mut totals.reserved_bytes, total_of(segment));
        for block in &segment.blocks.0 {
            if is_live(block) {
                add(&mut totals.allocated_bytes, block.size);
                add(&mut totals.requested_bytes, requested(block));
                totals.live_blocks += 1;
            } else if block.state != "inactive" {
                add(&mut totals.awaiting_free_bytes, block.size);
            }
        }
    }
    totals
}
