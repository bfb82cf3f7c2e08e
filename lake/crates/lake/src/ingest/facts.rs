//! Stores the samples, steps, events and rollups of units, in batches of bounded size.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hashbrown::HashMap;
use stormlog_analysis::{Damage, LoadError, ParsedFiles};
use stormlog_lake_tables::Table;

use super::plan::{How, Piece, Unit, offset, torn_bytes};
use super::progress::Progress;
use super::reading::{Job, Message, Reading};
use super::rows::{FactRows, Wanted};
use super::store::{Advance, Overtaken, Store};

/// Rows are committed when at least this many are waiting. Each takes about 20 bytes in memory
/// until the commit.
const ROWS_A_COMMIT: u64 = 4 << 20;
/// Lines of a file are read in ranges of this many bytes, so that a commit is possible between two
/// ranges.
const RANGE: i64 = 64 << 20;
/// The largest number of damaged places that are reported for one unit.
pub(super) const MOST_DAMAGE: usize = 1000;
/// A batch is committed after this time, so that a long ingest loses little when it is killed.
const LONGEST_BATCH: Duration = Duration::from_mins(1);

/// The tables `samples`, `steps`, `events` and `rollups` during an ingest, and the rows that are
/// not written to them yet.
pub(super) struct Facts<'p> {
    stores: Vec<Store>,
    progress: &'p Progress,
    rows: FactRows,
    /// The position that each source has reached in each table, including rows that are not
    /// committed yet.
    advances: HashMap<(Table, String), i64>,
    uncommitted: u64,
    began: std::time::Instant,
    pub(super) samples: u64,
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// By unit id, the damaged places that were found in the unit's files.
    pub(super) damage: HashMap<String, Vec<Damage>>,
}

impl<'p> Facts<'p> {
    pub(super) fn new(stores: Vec<Store>, progress: &'p Progress) -> Self {
        Self {
            stores,
            progress,
            rows: FactRows::default(),
            advances: HashMap::new(),
            uncommitted: 0,
            began: std::time::Instant::now(),
            samples: 0,
            events: 0,
            bytes: 0,
            damage: HashMap::new(),
        }
    }

    /// The ranges of files that must be read so that the tables have all events of the units. They
    /// are in the order of the units and of their pieces.
    pub(super) fn jobs<'u>(&self, units: impl Iterator<Item = (usize, &'u Unit)>) -> Vec<Job> {
        let mut jobs = Vec::new();
        // Pieces of one source may overlap, for example after a file was copied. Each piece is
        // therefore read only from where the pieces before it end.
        let mut planned: HashMap<&str, i64> = HashMap::new();
        for (index, unit) in units {
            for (piece_index, piece) in unit.pieces.iter().enumerate() {
                let before = planned.entry(&piece.source_id).or_insert(i64::MIN);
                jobs.extend(self.ranges(piece, *before).into_iter().map(|range| Job {
                    unit: index,
                    piece: piece_index,
                    range,
                }));
                *before = piece.end.max(*before);
            }
        }
        jobs
    }

    /// Stores the events of the unit with the given index that the tables do not have yet, and adds
    /// the events of files that were read for this to `parsed`.
    pub(super) async fn store(
        &mut self,
        (index, unit): (usize, &Unit),
        reading: &mut Reading,
        mut parsed: Option<&mut ParsedFiles>,
    ) -> Result<()> {
        for piece in &unit.pieces {
            let torn = torn_bytes(piece);
            if torn > 0 {
                let reason = format!("the last {torn} bytes are an unfinished line");
                self.note(unit, Damage::of_file(&*piece.file, reason));
            }
        }
        while let Some(job) = reading.next_job(index) {
            self.store_job(unit, &job, reading, parsed.as_deref_mut())
                .await?;
        }
        Ok(())
    }

    fn note(&mut self, unit: &Unit, damage: Damage) {
        let list = self.damage.entry(unit.id.clone()).or_default();
        if list.len() < MOST_DAMAGE {
            list.push(damage);
        }
    }

    /// The position up to which the rows of a source are in a table, including rows that are not
    /// committed yet.
    fn position(&self, store: &Store, source_id: &str) -> Option<i64> {
        let waiting = self.advances.get(&(store.table, source_id.to_owned()));
        waiting
            .copied()
            .or_else(|| store.ledger.position(source_id))
    }

    /// The ranges of a piece from `first` on that at least one table lacks. A range ends wherever a
    /// table's position is, so that each table lacks a range completely or not at all.
    fn ranges(&self, piece: &Piece, first: i64) -> Vec<Range<i64>> {
        let positions = self.stores.iter().map(|store| {
            let position = self.position(store, &piece.source_id);
            position
                .unwrap_or(piece.start)
                .max(first)
                .clamp(piece.start, piece.end)
        });
        let mut cuts: Vec<i64> = positions.collect();
        cuts.push(piece.end);
        if piece.read == How::Lines {
            let first = cuts.iter().copied().min().unwrap_or(piece.start);
            let mut next = first.saturating_add(RANGE);
            while next < piece.end {
                cuts.push(next);
                next = next.saturating_add(RANGE);
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    fn wanted(&self, source_id: &str, from: i64) -> Wanted {
        let lacks = |table: Table| {
            let store = self.stores.iter().find(|store| store.table == table);
            store.is_some_and(|store| {
                let position = self.position(store, source_id);
                position.is_none_or(|position| position <= from)
            })
        };
        let tables = Table::APPENDED.into_iter();
        Wanted(tables.filter(|table| lacks(*table)).collect())
    }

    async fn store_job(
        &mut self,
        unit: &Unit,
        job: &Job,
        reading: &mut Reading,
        parsed: Option<&mut ParsedFiles>,
    ) -> Result<()> {
        let piece = &unit.pieces[job.piece];
        let (from, to) = (job.range.start, job.range.end);
        for store in &self.stores {
            // When the range was planned, each table had all of it or nothing of it. If a table now
            // has a part of it, another ingest has stored that part meanwhile.
            let position = self.position(store, &piece.source_id);
            if position.is_some_and(|position| from < position && position < to) {
                bail!(Overtaken(store.table.name()));
            }
        }
        let wanted = self.wanted(&piece.source_id, from);
        let mut seq = from;
        let mut kept = Vec::new();
        let end = loop {
            let block = match reading.message().await? {
                Message::Block(block) => block,
                Message::End(end) => break end,
            };
            let added = self.rows.push(&piece.source_id, seq, &block, &wanted);
            self.samples += added.samples;
            self.events += added.events;
            self.uncommitted += block.len() as u64;
            seq = seq.saturating_add(i64::try_from(block.len()).unwrap_or(i64::MAX));
            if parsed.is_some() {
                kept.push(block);
            }
            if self.rows.is_full() {
                self.write().await?;
            }
        };
        match end {
            Ok(read) => {
                if let Some(parsed) = parsed
                    && read.are_complete
                {
                    parsed.add(&piece.file, offset(from)..offset(to), &kept);
                }
                for mut one in read.damage {
                    // The loader counts lines from the beginning of the range, so the line number
                    // is unknown in a later range.
                    if offset(from) > 0 {
                        one.line = None;
                    }
                    self.note(unit, one);
                }
            }
            Err(error) => {
                let file = piece.file.to_string_lossy().into_owned();
                if is_of_storage(&error) && seq > from {
                    // Some rows of this range were already added to the batch. If the batch were
                    // committed without a new position, the next ingest would store them again, so
                    // the ingest fails.
                    return Err(error).with_context(|| format!("cannot read '{file}'"));
                }
                self.note(unit, Damage::of_file(file, error.to_string()));
                if is_of_storage(&error) {
                    return Ok(());
                }
            }
        }
        for store in &self.stores {
            let before = self.position(store, &piece.source_id);
            let key = (store.table, piece.source_id.clone());
            if before.is_none_or(|before| before < to) {
                self.advances.insert(key, to);
            }
        }
        let bytes = match piece.read {
            How::Lines => u64::try_from(to - from).unwrap_or(0),
            How::CompressedLines | How::Whole => piece.bytes,
        };
        self.bytes += bytes;
        self.progress.advance(bytes);
        if self.uncommitted >= ROWS_A_COMMIT || self.began.elapsed() > LONGEST_BATCH {
            self.commit().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<()> {
        for (table, rows) in self.rows.take()? {
            if let Some(store) = self.stores.iter_mut().find(|store| store.table == table) {
                store.write(rows).await?;
            }
        }
        Ok(())
    }

    /// Commits all rows that were read since the last commit, one table after another.
    pub(super) async fn commit(&mut self) -> Result<()> {
        self.write().await?;
        let rollups = self.rows.take_rollups()?;
        for store in &mut self.stores {
            if store.table == Table::Rollups {
                store.write(rollups.clone()).await?;
            }
            let advances = self
                .advances
                .iter()
                .filter(|((table, _), _)| *table == store.table);
            let advances = advances.map(|((_, source_id), to)| Advance {
                source_id: source_id.clone(),
                from: store.ledger.position(source_id),
                to: *to,
            });
            let mut advances: Vec<Advance> = advances.collect();
            advances.sort_by(|a, b| a.source_id.cmp(&b.source_id));
            store.commit(&advances).await?;
        }
        self.advances.clear();
        self.uncommitted = 0;
        self.began = std::time::Instant::now();
        Ok(())
    }
}

/// Whether the error means that a file could not be read, rather than that it contains no events. A
/// file that could not be read now may be readable in a later ingest.
fn is_of_storage(error: &LoadError) -> bool {
    matches!(error, LoadError::Io { .. } | LoadError::NotFound(_))
}
