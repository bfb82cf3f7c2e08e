//! Detects, while a program runs, that its memory keeps rising. This module only decides when a
//! closer look at the program's memory is worth its cost; it reports nothing, because the analysis
//! decides what is a leak.
//!
//! Readings of the memory level are gathered in blocks; the lowest reading of a block is called its
//! floor. Memory counts as rising when each of several blocks in a row has a higher floor than the
//! block before, and when the floor has risen in total by at least as much as the readings vary
//! within one block. Slow growth of memory shows only in long blocks of readings, so blocks of
//! doubling length are checked in the same way. The detector takes 700 bytes, allocates nothing,
//! and needs constant time for each reading.

use std::time::{Duration, Instant};

/// Number of block lengths. The longest blocks of readings are 128 times as long as the shortest.
const SCALES: usize = 8;

/// How many readings are skipped at first, because the program is still starting.
const WARM_UP: u32 = 5;

/// While the floor is not above its highest earlier value, the required number of rises in a row is
/// multiplied by this factor. The rise may then be memory that was freed and is allocated again, so
/// more evidence is needed.
const SURE: u32 = 8;

/// A detected rise: how many bytes memory use has risen, and over what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rise {
    /// How many bytes the lowest reading of the last block is above that of the first block.
    pub bytes: i64,
    /// The time from the last reading of the first block to the last reading of the last block.
    pub over: Duration,
}

/// Detects that the readings of one memory counter keep rising.
#[derive(Debug)]
pub(crate) struct Rising {
    /// The number of readings in a block of the shortest length.
    block: u32,
    /// How many blocks in a row must have a higher floor than the block before.
    rises: u32,
    skipped: u32,
    filling: Option<Block>,
    scales: [Scale; SCALES],
}

#[derive(Clone, Copy, Debug)]
struct Block {
    readings: u32,
    floor: i64,
    ceiling: i64,
    at: Instant,
}

impl Block {
    fn and(self, later: Self) -> Self {
        Self {
            readings: self.readings.saturating_add(later.readings),
            floor: self.floor.min(later.floor),
            ceiling: self.ceiling.max(later.ceiling),
            at: later.at,
        }
    }

    fn range(&self) -> i64 {
        self.ceiling.saturating_sub(self.floor)
    }
}

/// The state of the detector for blocks of one length.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    /// A finished block of readings that becomes the first half of a block of the next, doubled
    /// length.
    half: Option<Block>,
    first: Option<Block>,
    last: Option<Block>,
    rises: u32,
    /// The largest difference between the highest and the lowest reading of one block of readings,
    /// among the blocks from `first` on.
    widest: i64,
    /// The highest floor (the lowest reading of a block) among the blocks before `first`.
    highest: Option<i64>,
}

impl Rising {
    /// Creates a detector with blocks of `block` readings; a rise needs `rises` blocks in a row,
    /// each with a higher floor than the block before.
    #[must_use]
    pub(crate) fn new(block: u32, rises: u32) -> Self {
        Self {
            block: block.max(1),
            rises: rises.max(1),
            skipped: 0,
            filling: None,
            scales: [Scale::default(); SCALES],
        }
    }

    /// Adds a reading; returns the rise when this reading completes a block that shows a rise.
    pub(crate) fn add(&mut self, level: i64, at: Instant) -> Option<Rise> {
        if self.skipped < WARM_UP {
            self.skipped += 1;
            return None;
        }
        let one = Block {
            readings: 1,
            floor: level,
            ceiling: level,
            at,
        };
        let filling = self.filling.map_or(one, |block| block.and(one));
        if filling.readings < self.block {
            self.filling = Some(filling);
            return None;
        }
        self.filling = None;
        let (mut block, mut risen) = (filling, None);
        for scale in &mut self.scales {
            risen = scale.add(block, self.rises).or(risen);
            let Some(half) = scale.half.take() else {
                scale.half = Some(block);
                break;
            };
            block = half.and(block);
        }
        risen
    }
}

impl Scale {
    fn add(&mut self, block: Block, needed: u32) -> Option<Rise> {
        let last = self.last.replace(block);
        let (Some(first), Some(last)) = (self.first, last) else {
            self.first = Some(block);
            return None;
        };
        if block.floor <= last.floor {
            self.highest = Some(self.highest.map_or(last.floor, |h| h.max(last.floor)));
            self.start_with(block);
            return None;
        }
        self.rises = self.rises.saturating_add(1);
        self.widest = self.widest.max(block.range());
        let bytes = block.floor.saturating_sub(first.floor);
        let is_new = self.highest.is_none_or(|highest| block.floor > highest);
        let is_sure = self.rises >= needed.saturating_mul(SURE);
        if self.rises < needed || bytes < self.widest || !(is_new || is_sure) {
            return None;
        }
        self.start_with(block);
        Some(Rise {
            bytes,
            over: block.at.saturating_duration_since(first.at),
        })
    }

    fn start_with(&mut self, block: Block) {
        self.first = Some(block);
        self.rises = 0;
        self.widest = block.range();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    /// The numbers of the readings, taken ten times a second, at which the test's level of memory
    /// is found to rise.
    fn rises(level: impl Fn(i64) -> i64, readings: i64) -> Vec<(i64, Rise)> {
        let start = Instant::now();
        let mut rising = Rising::new(5, 6);
        let at = |i: i64| start + Duration::from_millis(100 * u64::try_from(i).unwrap());
        let found = (0..readings).filter_map(|i| Some((i, rising.add(level(i), at(i))?)));
        found.collect()
    }

    fn noise(i: i64) -> i64 {
        let mixed = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())) ^ (i << 7);
        (mixed.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).rem_euclid(1000)
    }

    #[test]
    fn a_constant_level_never_rises() {
        assert_eq!(rises(|_| 800 * MIB, 100_000), []);
    }

    #[test]
    fn even_growth_is_noticed_in_seconds_with_its_rate() {
        let found = rises(|i| 800 * MIB + i * MIB, 100);
        let (at, rise) = found[0];
        assert!(at < 45, "{at}");
        let per_second = rise.bytes / i64::try_from(rise.over.as_secs()).unwrap();
        assert!((9 * MIB..=11 * MIB).contains(&per_second), "{rise:?}");
    }

    #[test]
    fn growth_that_starts_late_is_noticed() {
        let found = rises(|i| 800 * MIB + (i - 5_000).max(0) * MIB, 5_200);
        let at = found.first().map_or(0, |(at, _)| *at);
        assert!((5_000..5_050).contains(&at), "{found:?}");
    }

    #[test]
    fn slow_growth_in_stairs_is_noticed_by_longer_blocks() {
        // The level of memory in the test rises by 1 MiB every 20 s.
        let found = rises(|i| 800 * MIB + i / 200 * MIB, 6_000);
        assert!(!found.is_empty());
    }

    #[test]
    fn growth_under_scatter_is_noticed_when_it_exceeds_it() {
        let level = |i: i64| 800 * MIB + i * MIB / 20 + noise(i) * MIB / 10;
        assert!(!rises(level, 8_000).is_empty());
    }

    #[test]
    fn scatter_and_short_teeth_do_not_rise() {
        assert_eq!(rises(|i| 800 * MIB + noise(i) * MIB, 20_000), []);
        assert_eq!(rises(|i| 800 * MIB + i % 30 * MIB, 20_000), []);
        assert_eq!(rises(|i| 800 * MIB - i % 7 * MIB, 20_000), []);
    }

    #[test]
    fn only_the_first_of_many_long_teeth_may_rise() {
        let found = rises(|i| 800 * MIB + i % 100 * MIB, 20_000);
        assert!(found.iter().all(|(at, _)| *at < 110), "{found:?}");
    }

    #[test]
    fn a_jump_now_and_then_does_not_rise() {
        assert_eq!(rises(|i| 800 * MIB + i / 2_000 * 100 * MIB, 8_000), []);
    }
}
