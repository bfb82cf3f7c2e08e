//! Thinning keeps a whole run within a budget of bytes by removing samples from the older part of
//! the sink.
//!
//! Thinning leaves the newest segments of the sink complete. Thinning rewrites older segments, so
//! that each time interval keeps only the samples listed in [`select`]. The older a segment is, the
//! longer are the time intervals to which it is thinned. The module `thinning` decides which
//! segments are rewritten next; it does no file access.

pub(crate) mod rewrite;
mod select;
pub(crate) mod thinner;

use stormlog_format::Segment;

use super::segment::is_plain_name;

/// Options for thinning, which keeps a sink within a budget without losing its older part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thinning {
    /// The budget: the largest number of bytes of all segments of the sink together.
    pub budget_bytes: u64,
}

const SECOND_NS: i64 = 1_000_000_000;

/// The time intervals to which segments are thinned, from the shortest to the longest.
const INTERVALS_NS: [i64; 5] = [
    SECOND_NS,
    10 * SECOND_NS,
    60 * SECOND_NS,
    600 * SECOND_NS,
    3600 * SECOND_NS,
];

/// The longest time interval to which a segment is thinned. Segments that are thinned to it are not
/// thinned further.
pub(crate) const COARSEST_INTERVAL_NS: i64 = INTERVALS_NS[INTERVALS_NS.len() - 1];

/// The value of `thinned_interval_ns` in the manifest for a segment that was merged from others
/// without removing samples. A program that reads the sink during the run sees from the changed
/// value that the segment's file was rewritten.
const MERGED_INTERVAL_NS: i64 = 1;

/// The number of levels of thinning: complete segments have level 0, segments thinned to the n-th
/// time interval have level n.
const LEVELS: usize = INTERVALS_NS.len() + 1;
const COARSEST: usize = LEVELS - 1;

/// The share of each level of thinning in the usable bytes of the budget, in sixteenths. With 10
/// samples a second of 700 bytes each and the default budget, the shares of the levels keep 5 hours
/// complete, then 2 hours thinned to intervals of 1 s, 20 hours at 10 s, 5 days at 1 min, 26 days
/// at 10 min, and 150 days at 1 h.
const SHARES: [u64; LEVELS] = [8, 2, 2, 2, 1, 1];

/// The largest number of segments that one rewrite combines into one segment.
const LARGEST_GROUP: usize = 16;

/// The number of segments above which the segments of one level of thinning are merged. A merge
/// takes at least [`SMALLEST_MERGE`] segments, so that the old lines are not copied again for every
/// new segment.
const MANY_SEGMENTS: usize = 32;
const SMALLEST_MERGE: usize = 8;

/// The smallest size in bytes at which a sink starts the next segment, whatever the budget.
const SMALLEST_SEGMENT: u64 = 4 << 10;

impl Thinning {
    /// The budget that recordings of `stormlog run` and `stormlog track` have.
    pub const DEFAULT: Self = Self {
        budget_bytes: 256 << 20,
    };

    /// The size in bytes at which a sink starts the next segment; it is small, so that thinning
    /// works on small files.
    pub(crate) fn segment_bytes(self) -> u64 {
        (self.budget_bytes / 16).max(SMALLEST_SEGMENT)
    }

    /// The total bytes of segments above which segments are thinned; the rest of the budget is for
    /// events that are written during a rewrite.
    fn usable_bytes(self) -> u64 {
        self.budget_bytes - self.budget_bytes / 8
    }

    /// How many bytes at the end of the recording, in its newest segments, are neither thinned nor
    /// deleted.
    fn protected_bytes(self) -> u64 {
        self.budget_bytes / 8
    }

    /// The number of bytes above which thinning cannot keep up with the events and whole segments
    /// are deleted, because the watched program needs the disk space.
    pub(crate) fn most_bytes(self) -> u64 {
        self.budget_bytes.saturating_mul(2)
    }

    fn share(self, level: usize) -> u64 {
        self.usable_bytes() / 16 * SHARES[level]
    }
}

/// What thinning does next to keep the segments of a sink within the budget of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Rewrite `count` segments, starting with index `first`, into one segment that is thinned to a
    /// time interval.
    Rewrite {
        first: usize,
        count: usize,
        interval_ns: i64,
    },
    /// Delete the segment with the given index, because nothing more can be thinned.
    Drop(usize),
}

/// The level of thinning of a segment, by the time interval to which it was thinned. A time
/// interval that is not in [`INTERVALS_NS`] lies between two levels; the segment gets the lower
/// level and may be thinned further to the higher one.
fn level(segment: &Segment) -> usize {
    let interval = segment.thinned_interval_ns;
    INTERVALS_NS.partition_point(|known| *known <= interval)
}

fn size(segment: &Segment) -> u64 {
    u64::try_from(segment.size_bytes).unwrap_or(0)
}

/// The next action that keeps a sink within its budget; its segments are given oldest first.
pub(crate) fn plan(segments: &[Segment], thinning: Thinning) -> Option<Plan> {
    let total: u64 = segments.iter().map(size).sum();
    let layout = Layout::of(segments, thinning);
    if total > thinning.usable_bytes() {
        layout.thin().or_else(|| layout.drop_oldest())
    } else {
        layout.merge()
    }
}

/// The segments of a sink, with the bytes and the number of segments of each level of thinning.
struct Layout<'a> {
    segments: &'a [Segment],
    thinning: Thinning,
    /// The index of the first of the newest segments, which are neither thinned nor deleted.
    protected: usize,
    bytes: [u64; LEVELS],
    counts: [usize; LEVELS],
}

impl<'a> Layout<'a> {
    fn of(segments: &'a [Segment], thinning: Thinning) -> Self {
        let mut layout = Self {
            segments,
            thinning,
            protected: segments.len(),
            bytes: [0; LEVELS],
            counts: [0; LEVELS],
        };
        let mut newest = 0;
        for (index, segment) in segments.iter().enumerate().rev() {
            newest += size(segment);
            if newest <= thinning.protected_bytes() {
                layout.protected = index;
            }
            let level = level(segment);
            layout.bytes[level] += size(segment);
            layout.counts[level] += 1;
        }
        layout
    }

    /// Whether a segment may be rewritten: it is closed and has a plain file name.
    fn is_idle(&self, index: usize) -> bool {
        let segment = &self.segments[index];
        segment.closed && segment.filename.as_str().is_some_and(is_plain_name)
    }

    fn thin(&self) -> Option<Plan> {
        let oldest = |wanted: usize| {
            (0..self.protected)
                .find(|index| self.is_idle(*index) && level(&self.segments[*index]) == wanted)
        };
        let is_too_much = |level: &usize| self.bytes[*level] > self.thinning.share(*level);
        // If all levels of thinning are within their shares, the segments with the longest interval
        // are thinned first, so that recent events stay complete longest.
        let mut in_turn = (0..COARSEST).filter(is_too_much).chain((0..COARSEST).rev());
        let (level, first) = in_turn.find_map(|level| Some((level, oldest(level)?)))?;
        Some(Plan::Rewrite {
            first,
            count: self.group(first, self.protected),
            interval_ns: INTERVALS_NS[level],
        })
    }

    /// How many segments from `first` on can be rewritten into one: neighbours of the same session
    /// and the same level of thinning that together are not larger than one segment.
    fn group(&self, first: usize, end: usize) -> usize {
        let head = &self.segments[first];
        let mut bytes = 0;
        let of_group = (first..end).take(LARGEST_GROUP).take_while(|index| {
            let segment = &self.segments[*index];
            bytes += size(segment);
            self.is_idle(*index)
                && segment.session_id == head.session_id
                && level(segment) == level(head)
                && bytes <= self.thinning.segment_bytes()
        });
        of_group.count().max(1)
    }

    fn merge(&self) -> Option<Plan> {
        if self.counts.iter().all(|count| *count <= MANY_SEGMENTS) {
            return None;
        }
        let mut first = 0;
        while first < self.segments.len() {
            let is_many = self.counts[level(&self.segments[first])] > MANY_SEGMENTS;
            let count = if is_many {
                self.group(first, self.segments.len())
            } else {
                1
            };
            if count >= SMALLEST_MERGE && self.is_idle(first) {
                let interval_ns = self.segments[first].thinned_interval_ns;
                let interval_ns = interval_ns.max(MERGED_INTERVAL_NS);
                return Some(Plan::Rewrite {
                    first,
                    count,
                    interval_ns,
                });
            }
            first += 1;
        }
        None
    }

    fn drop_oldest(&self) -> Option<Plan> {
        let oldest = (0..self.protected).find(|index| self.segments[*index].closed);
        oldest.map(Plan::Drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Thinning = Thinning {
        budget_bytes: 1600 << 10,
    };

    fn segment(number: usize, kib: i64, level: usize) -> Segment {
        Segment {
            filename: format!("segment-{number:06}.jsonl").into(),
            event_count: kib,
            size_bytes: kib << 10,
            closed: true,
            session_id: Some("s".into()),
            thinned_interval_ns: level.checked_sub(1).map_or(0, |level| INTERVALS_NS[level]),
        }
    }

    fn of_levels(levels: &[(usize, i64)]) -> Vec<Segment> {
        let all = levels.iter().enumerate();
        all.map(|(number, (level, kib))| segment(number, *kib, *level))
            .collect()
    }

    #[test]
    fn nothing_is_done_within_the_budget() {
        assert_eq!(plan(&of_levels(&[(0, 100); 14]), BUDGET), None);
        assert_eq!(plan(&[], BUDGET), None);
    }

    #[test]
    fn the_oldest_complete_segments_go_first() {
        let plan = plan(&of_levels(&[(0, 50); 30]), BUDGET);
        let expected = Plan::Rewrite {
            first: 0,
            count: 2,
            interval_ns: SECOND_NS,
        };
        assert_eq!(plan, Some(expected));
    }

    #[test]
    fn older_is_coarser() {
        let mut segments = vec![(2, 100); 3];
        segments.extend([(1, 100); 5]);
        segments.extend([(0, 100); 7]);
        let plan = plan(&of_levels(&segments), BUDGET);
        let expected = Plan::Rewrite {
            first: 3,
            count: 1,
            interval_ns: 10 * SECOND_NS,
        };
        assert_eq!(plan, Some(expected));
    }

    #[test]
    fn whole_segments_are_dropped_when_all_is_coarsest() {
        let mut segments = vec![(COARSEST, 100); 13];
        segments.extend([(0, 100); 2]);
        assert_eq!(plan(&of_levels(&segments), BUDGET), Some(Plan::Drop(0)));
        segments[12].0 = 3;
        let expected = Plan::Rewrite {
            first: 12,
            count: 1,
            interval_ns: INTERVALS_NS[3],
        };
        assert_eq!(plan(&of_levels(&segments), BUDGET), Some(expected));
    }

    #[test]
    fn open_segments_and_other_sessions_are_left_alone() {
        let mut segments = of_levels(&[(0, 40); 40]);
        segments[0].closed = false;
        segments[2].session_id = Some("other".into());
        let expected = Plan::Rewrite {
            first: 1,
            count: 1,
            interval_ns: SECOND_NS,
        };
        assert_eq!(plan(&segments, BUDGET), Some(expected));
    }

    #[test]
    fn many_small_segments_are_merged() {
        let mut segments = of_levels(&[(2, 1); 40]);
        let expected = Plan::Rewrite {
            first: 0,
            count: LARGEST_GROUP,
            interval_ns: INTERVALS_NS[1],
        };
        assert_eq!(plan(&segments, BUDGET), Some(expected));
        segments.truncate(32);
        assert_eq!(plan(&segments, BUDGET), None);
    }

    #[test]
    fn unknown_intervals_lie_between_levels() {
        let mut one = segment(1, 1, 0);
        for (interval, expected) in [(0, 0), (5, 0), (SECOND_NS, 1), (5 * SECOND_NS, 1)] {
            one.thinned_interval_ns = interval;
            assert_eq!(level(&one), expected);
        }
        one.thinned_interval_ns = i64::MAX;
        assert_eq!(level(&one), COARSEST);
    }
}
