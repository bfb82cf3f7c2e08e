//! Stores rows in tables: files are written as rows come, and one commit makes them visible
//! together with the positions up to which sources are stored.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Date32Type;
use datafusion::prelude::SessionContext;
use deltalake::kernel::scalars::ScalarExt;
use deltalake::kernel::transaction::{CommitBuilder, CommitProperties};
use deltalake::kernel::{Action, Add, Remove, Transaction};
use deltalake::protocol::{DeltaOperation, SaveMode};
use deltalake::writer::{DeltaWriter, RecordBatchWriter, WriteMode};
use deltalake::{DeltaTable, DeltaTableError};
use futures::future::try_join_all;
use indexmap::IndexMap;
use stormlog_lake_tables::{
    Lake, LakeError, Ledger, PARTITION, Table, delta_error, read_ledger, writer_properties,
};

use super::replace::Rewrite;

/// How many times a commit is tried before it fails. After each attempt that seemed to fail, the
/// table's log shows whether it has succeeded nevertheless.
const MOST_TRIES: u32 = 8;
/// The pause between the first two attempts; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The largest number of slices (consecutive rows of one day) that are written without a copy. With
/// more slices, the writer sorts the rows by copying them, because many small slices are encoded
/// slowly.
const MOST_SLICES: usize = 16;

/// The error that another ingest has stored some of the same sources meanwhile.
#[derive(Debug, thiserror::Error)]
#[error("another ingest stored the same sources in table '{0}'")]
pub(super) struct Overtaken(pub(super) &'static str);

/// A source, and the position up to which it is stored before and after a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) source_id: String,
    /// The position before the commit; `None` if nothing of the source was stored.
    pub(super) from: Option<i64>,
    pub(super) to: i64,
}

/// A table into which an ingest writes rows, and up to which position each source is already stored
/// in it.
pub(super) struct Store {
    pub(super) table: Table,
    opened: DeltaTable,
    pub(super) ledger: Ledger,
    writer: Option<RecordBatchWriter>,
    lake: Lake,
}

impl Store {
    /// Opens tables, and creates those that do not exist. The logs are read at the same time, because
    /// each read waits for storage most of the time.
    pub(super) async fn open_all(lake: &Lake, tables: &[Table]) -> Result<Vec<Self>, LakeError> {
        try_join_all(tables.iter().map(|table| Self::open(lake, *table))).await
    }

    async fn open(lake: &Lake, table: Table) -> Result<Self, LakeError> {
        let opened = lake.open_or_create(table).await?;
        let ledger = read_ledger(table, &opened).await?;
        Ok(Self {
            table,
            opened,
            ledger,
            writer: None,
            lake: lake.clone(),
        })
    }

    fn failed(&self, error: DeltaTableError) -> LakeError {
        delta_error(self.table, error)
    }

    /// Encodes rows into Parquet files, which become part of the table with the next
    /// [`commit`](Self::commit).
    pub(super) async fn write(&mut self, rows: RecordBatch) -> Result<(), LakeError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.new_writer().map_err(|error| self.failed(error))?,
        };
        let written = write_days(&mut writer, rows).await;
        self.writer = Some(writer);
        written.map_err(|error| self.failed(error))
    }

    /// Makes the rows visible that were written since the last commit, and records the positions up
    /// to which sources are stored. Rows and positions become visible together or not at all.
    pub(super) async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if advances.is_empty() {
            return Ok(());
        }
        let adds: Vec<Add> = match self.writer.as_mut() {
            Some(writer) => {
                let flushed = writer.flush().await;
                flushed.map_err(|error| delta_error(self.table, error))?
            }
            None => Vec::new(),
        };
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let actions = adds.iter().cloned().map(Action::Add).collect();
            let operation = DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: Some(vec!["date".to_owned()]),
                predicate: None,
            };
            let snapshot = self
                .opened
                .snapshot()
                .map_err(|error| delta_error(self.table, error))?;
            let committed = CommitBuilder::from(properties(advances))
                .with_actions(actions)
                .build(Some(snapshot), self.opened.log_store(), operation)
                .await;
            match self
                .settle(committed.map(|_| ()), advances, attempt)
                .await?
            {
                Settled::Stored => return Ok(()),
                Settled::Again => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Ok(())
    }

    /// Replaces the rows of some sources by new rows, and records the state of the units that the
    /// rows were made from.
    pub(super) async fn replace(
        &mut self,
        source_ids: &BTreeSet<String>,
        rows: &RecordBatch,
        advances: &[Advance],
    ) -> Result<()> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let replaced = self.try_replace(source_ids, rows, advances).await;
            match self.settle(replaced, advances, attempt).await? {
                Settled::Stored => return Ok(()),
                Settled::Again => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Ok(())
    }

    /// Writes the new rows, and writes each file that contains old rows again without them. One
    /// commit replaces the old files by the new ones.
    async fn try_replace(
        &self,
        source_ids: &BTreeSet<String>,
        rows: &RecordBatch,
        advances: &[Advance],
    ) -> Result<(), DeltaTableError> {
        let mut writer = self.new_writer()?;
        let removed = self.rewrite_without(source_ids, &mut writer).await?;
        if rows.num_rows() > 0 {
            write_days(&mut writer, rows.clone()).await?;
        }
        let added = writer.flush().await?;
        let removed = removed.into_iter().map(Action::Remove);
        let actions = removed.chain(added.into_iter().map(Action::Add)).collect();
        CommitBuilder::from(properties(advances))
            .with_actions(actions)
            .build(
                Some(self.opened.snapshot()?),
                self.opened.log_store(),
                DeltaOperation::Update { predicate: None },
            )
            .await
            .map(|_| ())
    }

    /// Rewrites the files that contain rows of the given sources, without these rows. Returns the
    /// log entries that remove the old files.
    async fn rewrite_without(
        &self,
        source_ids: &BTreeSet<String>,
        writer: &mut RecordBatchWriter,
    ) -> Result<Vec<Remove>, DeltaTableError> {
        if source_ids.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.lake.state();
        let state = state.map_err(|error| DeltaTableError::Generic(error.to_string()))?;
        let rewrite = Rewrite {
            table: self.table,
            opened: &self.opened,
            session: &SessionContext::from(state.build()),
            source_ids,
        };
        rewrite.run(writer).await
    }

    fn new_writer(&self) -> Result<RecordBatchWriter, DeltaTableError> {
        let writer = RecordBatchWriter::for_table(&self.opened)?;
        Ok(writer.with_writer_properties(writer_properties(self.table)))
    }

    /// Finds out from the table's log whether an attempt to commit has succeeded. A request to
    /// commit may have succeeded although its answer was lost.
    async fn settle(
        &mut self,
        outcome: Result<(), DeltaTableError>,
        advances: &[Advance],
        attempt: u32,
    ) -> Result<Settled> {
        let table = self.table.name();
        let before = self.opened.version();
        if outcome.is_ok() && self.opened.update_state().await.is_ok() {
            let is_next = self.opened.version() == before.map(|version| version + 1);
            if !is_next {
                // Another ingest has committed too. Later commits are checked only against commits
                // after this version, so the positions that the other ingest has stored are read
                // now.
                self.ledger = read_ledger(self.table, &self.opened).await?;
            }
            for advance in advances {
                self.ledger.advance(&advance.source_id, advance.to);
            }
            return Ok(Settled::Stored);
        }
        if let Err(error) = self.reload().await {
            // Only the table's log shows whether the commit succeeded, so if the log cannot be
            // read, the attempt is repeated.
            if attempt >= MOST_TRIES {
                return Err(error).context(format!("cannot read the log of table '{table}'"));
            }
            return Ok(Settled::Again);
        }
        let is_at = |advance: &Advance| self.ledger.position(&advance.source_id);
        if advances
            .iter()
            .all(|advance| is_at(advance) == Some(advance.to))
        {
            return Ok(Settled::Stored);
        }
        if advances
            .iter()
            .any(|advance| is_at(advance) != advance.from)
        {
            bail!(Overtaken(table));
        }
        match outcome {
            Err(error) if attempt >= MOST_TRIES => Err(delta_error(self.table, error).into()),
            _ if attempt >= MOST_TRIES => {
                bail!("table '{table}': the commit that was just made is not in the log")
            }
            _ => Ok(Settled::Again),
        }
    }

    async fn reload(&mut self) -> Result<(), LakeError> {
        let updated = self.opened.update_state().await;
        updated.map_err(|error| delta_error(self.table, error))?;
        self.ledger = read_ledger(self.table, &self.opened).await?;
        Ok(())
    }
}

/// Writes rows, each into the partition of its day. The writer sorts rows into partitions by copying
/// all of them; rows of a recording are in order of time, so that slices of one day each can be
/// written without a copy.
pub(super) async fn write_days(
    writer: &mut RecordBatchWriter,
    rows: RecordBatch,
) -> Result<(), DeltaTableError> {
    let Some(days) = slices_of_days(&rows) else {
        return writer.write(rows).await;
    };
    for slice in days {
        let rows = rows.slice(slice.start, slice.len());
        let date = rows.column_by_name(PARTITION);
        let Some(date) = date.and_then(|column| ScalarExt::from_array(column, 0)) else {
            return writer.write(rows).await;
        };
        let day = IndexMap::from([(PARTITION.to_owned(), date)]);
        // The writer's future is larger than the futures of all its callers together, so it is
        // boxed.
        Box::pin(writer.write_partition(rows, &day, WriteMode::Default)).await?;
    }
    Ok(())
}

/// The ranges of rows that have the same day and follow each other; `None` when there are more than
/// [`MOST_SLICES`].
fn slices_of_days(rows: &RecordBatch) -> Option<Vec<Range<usize>>> {
    let dates = rows.column_by_name(PARTITION)?;
    let dates = dates.as_primitive_opt::<Date32Type>()?.values();
    let mut slices: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for run in dates.chunk_by(|one, next| one == next) {
        if slices.len() == MOST_SLICES {
            return None;
        }
        slices.push(start..start + run.len());
        start += run.len();
    }
    Some(slices)
}

enum Settled {
    Stored,
    Again,
}

fn properties(advances: &[Advance]) -> CommitProperties {
    let transactions = advances
        .iter()
        .map(|advance| Transaction::new(Ledger::app_id(&advance.source_id), advance.to));
    CommitProperties::default().with_application_transactions(transactions.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Date32Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows_of(days: Vec<i32>) -> RecordBatch {
        let schema = Schema::new(vec![Field::new(PARTITION, DataType::Date32, false)]);
        let days = Arc::new(Date32Array::from(days));
        RecordBatch::try_new(Arc::new(schema), vec![days]).unwrap()
    }

    fn advance(source_id: &str) -> Vec<Advance> {
        vec![Advance {
            source_id: source_id.to_owned(),
            from: None,
            to: 7,
        }]
    }

    #[tokio::test]
    async fn what_another_ingest_stored_meanwhile_is_known_after_a_commit() {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::at(folder.path().to_str().unwrap()).unwrap();
        let mut one = Store::open(&lake, Table::Steps).await.unwrap();
        let mut other = Store::open(&lake, Table::Steps).await.unwrap();
        other.commit(&advance("of the other")).await.unwrap();
        one.commit(&advance("own")).await.unwrap();
        assert_eq!(one.ledger.position("own"), Some(7));
        assert_eq!(one.ledger.position("of the other"), Some(7));
    }

    #[test]
    fn rows_in_order_of_time_are_slices_of_days() {
        let slices = slices_of_days(&rows_of(vec![1, 1, 2, 2, 2, 1]));
        assert_eq!(slices, Some(vec![0..2, 2..5, 5..6]));
        let most = i32::try_from(MOST_SLICES).unwrap();
        assert!(slices_of_days(&rows_of((0..most).collect())).is_some());
        assert!(slices_of_days(&rows_of((0..=most).collect())).is_none());
    }
}
