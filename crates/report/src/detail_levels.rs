//! Packs the samples of a track into levels of detail for an HTML page. The page draws the coarsest
//! level that is fine enough for its zoom, and unpacks only the blocks that it shows.
//!
//! A block is a raw deflate stream of variable-length integers, with seven bits per byte and the
//! low bits first. A block contains one column after the other: first the start times, each as the
//! difference to the previous one, then the values of each series. In coarse levels, an entry is a
//! bucket: it summarizes several consecutive samples. There, a column with the lengths of the
//! buckets follows the start times, and each series has two columns: the lowest and the highest
//! values. Each value is stored as its difference to the previous value, in zigzag coding plus one;
//! zero means that the value is unknown.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rayon::prelude::*;

use crate::measure::UNKNOWN;

/// The number of entries in a block, few enough that a page can unpack a block between two frames.
const BLOCK: usize = 16_384;
/// Each entry of a level summarizes this number of entries of the next finer level.
const STEP: usize = 16;
/// A level with at most this many entries becomes the coarsest level, which a page unpacks before
/// it draws anything.
const ENOUGH: usize = 16_384;

/// The columns of a track: the sample times, which all series share, and the values of each series.
pub(crate) struct Columns<'a> {
    /// Times of the samples in ascending order, in nanoseconds since the zero of the page's time
    /// axis.
    pub(crate) times: Vec<i64>,
    pub(crate) series: Vec<&'a [i64]>,
}

/// One level of detail of a track, in which each entry summarizes `bucket` consecutive samples.
pub(crate) struct Level {
    pub(crate) bucket: usize,
    pub(crate) blocks: Vec<Block>,
}

/// A compressed block of `count` consecutive entries of a level, whose samples were taken in the
/// time range from `from` to `to`.
pub(crate) struct Block {
    pub(crate) count: usize,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) packed: Vec<u8>,
}

/// Packs a track into levels of detail, the finest first. The finest level contains every sample of
/// the track.
pub(crate) fn pack(columns: &Columns<'_>) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut bucket = 1;
    loop {
        let count = columns.times.len().div_ceil(bucket);
        let ranges: Vec<(usize, usize)> = (0..count.div_ceil(BLOCK))
            .map(|block| (block * BLOCK, ((block + 1) * BLOCK).min(count)))
            .collect();
        let blocks = ranges
            .into_par_iter()
            .map(|(start, end)| pack_block(columns, bucket, start..end))
            .collect();
        levels.push(Level { bucket, blocks });
        if count <= ENOUGH {
            return levels;
        }
        bucket *= STEP;
    }
}

fn pack_block(columns: &Columns<'_>, bucket: usize, entries: std::ops::Range<usize>) -> Block {
    let total = columns.times.len();
    let samples = |entry: usize| entry * bucket..((entry + 1) * bucket).min(total);
    let mut plain = Vec::with_capacity(entries.len() * (2 + columns.series.len() * 2) * 3);
    let mut previous = 0;
    for entry in entries.clone() {
        let start = columns.times[samples(entry).start];
        put(&mut plain, start.saturating_sub(previous).max(0) as u64);
        previous = start;
    }
    if bucket > 1 {
        for entry in entries.clone() {
            let range = samples(entry);
            let length = columns.times[range.end - 1] - columns.times[range.start];
            put(&mut plain, length.max(0) as u64);
        }
    }
    for series in &columns.series {
        if bucket == 1 {
            put_values(&mut plain, entries.clone().map(|entry| series[entry]));
            continue;
        }
        let known = |entry: usize| {
            let values = series[samples(entry)].iter().copied();
            values.filter(|value| *value != UNKNOWN)
        };
        put_values(
            &mut plain,
            entries
                .clone()
                .map(|entry| known(entry).min().unwrap_or(UNKNOWN)),
        );
        put_values(
            &mut plain,
            entries
                .clone()
                .map(|entry| known(entry).max().unwrap_or(UNKNOWN)),
        );
    }
    Block {
        count: entries.len(),
        from: columns.times[samples(entries.start).start],
        to: columns.times[samples(entries.end - 1).end - 1],
        packed: deflate(&plain),
    }
}

/// Packs a matrix of values (one row per track) into one block, row by row.
pub(crate) fn pack_matrix(rows: &[Vec<Option<i64>>]) -> Vec<u8> {
    let mut plain = Vec::new();
    for row in rows {
        put_values(&mut plain, row.iter().map(|cell| cell.unwrap_or(UNKNOWN)));
    }
    deflate(&plain)
}

fn put_values(out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
    let mut previous = 0;
    for value in values {
        if value == UNKNOWN {
            put(out, 0);
            continue;
        }
        // JavaScript numbers lose precision beyond 2^53, so values are limited to 2^52 bytes; no
        // device has that much memory.
        let value = value.clamp(-(1 << 52), 1 << 52);
        let difference = value - previous;
        let zigzag = ((difference << 1) ^ (difference >> 63)) as u64;
        put(out, zigzag + 1);
        previous = value;
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    // The encoder writes to a vector, which does not fail.
    let written = encoder.write_all(plain);
    debug_assert!(written.is_ok());
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn inflate(packed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        flate2::read::DeflateDecoder::new(packed)
            .read_to_end(&mut plain)
            .unwrap();
        plain
    }

    #[test]
    fn a_block_spells_times_and_values() {
        let values = [5, UNKNOWN, 4];
        let columns = Columns {
            times: vec![10, 20, 330],
            series: vec![&values],
        };
        let levels = pack(&columns);
        assert_eq!(levels.len(), 1);
        let block = &levels[0].blocks[0];
        assert_eq!((block.count, block.from, block.to), (3, 10, 330));
        // The expected bytes are the times 10, +10 and +310, and then the values: +5 (zigzag 10,
        // stored as 11), unknown (stored as 0) and -1 (zigzag 1, stored as 2).
        assert_eq!(inflate(&block.packed), [10, 10, 0xb6, 0x02, 11, 0, 2]);
    }

    #[test]
    fn coarse_levels_keep_every_peak() {
        let times: Vec<i64> = (0..300_000).collect();
        let mut values = vec![100; times.len()];
        values[77_777] = 1_000;
        let columns = Columns {
            times,
            series: vec![&values],
        };
        let levels = pack(&columns);
        let buckets: Vec<usize> = levels.iter().map(|level| level.bucket).collect();
        assert_eq!(buckets, [1, 16, 256]);
        let coarsest = levels.last().unwrap();
        let plain = inflate(&coarsest.blocks[0].packed);
        // The jump of the values from 100 to 1000 is stored in the column of the highest values as
        // zigzag 1800 plus one, which is 1801 or the bytes 0x89 0x0e.
        assert!(plain.windows(2).any(|pair| pair == [0x89, 0x0e]));
    }
}
