//! Rewrites the files of a table that contain rows of the given sources, without these rows.
//!
//! The Delta library deletes rows by a condition, but it walks through a list of ids in a condition
//! recursively: the ids of a run of thousands of ranks would overflow its stack.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{cast, filter_record_batch, not};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::prelude::SessionContext;
use deltalake::kernel::Remove;
use deltalake::writer::RecordBatchWriter;
use deltalake::{DeltaTable, DeltaTableError};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use stormlog_lake_tables::{Table, single_files};

use super::store::write_days;

const SOURCE_ID: &str = "source_id";
/// How many files are searched at the same time. Each search spends most of its time on waiting for
/// object storage.
const SEARCHED_AT_ONCE: usize = 16;

/// The removal of all rows of some sources from a table.
pub(super) struct Rewrite<'a> {
    pub(super) table: Table,
    pub(super) opened: &'a DeltaTable,
    pub(super) session: &'a SessionContext,
    /// The values of the column `source_id` whose rows are removed.
    pub(super) source_ids: &'a BTreeSet<String>,
}

/// A Parquet file of the table's current version: its rows, and the log entry that removes the file
/// from the table.
struct File {
    rows: Arc<dyn TableProvider>,
    removal: Remove,
}

impl Rewrite<'_> {
    /// Rewrites the files that contain rows of the sources, without these rows. Returns the actions
    /// that remove the old files. The rows to keep are given to `writer`.
    pub(super) async fn run(
        &self,
        writer: &mut RecordBatchWriter,
    ) -> Result<Vec<Remove>, DeltaTableError> {
        let mut files = stream::iter(self.candidates()?)
            .map(|file| async {
                let found = self.is_in(&file).await?;
                Ok::<_, DeltaTableError>(found.then_some(file))
            })
            .buffered(SEARCHED_AT_ONCE);
        let mut removed = Vec::new();
        while let Some(found) = files.try_next().await? {
            let Some(file) = found else { continue };
            let frame = self.session.read_table(Arc::clone(&file.rows))?;
            let mut batches = frame.execute_stream().await?;
            while let Some(batch) = batches.try_next().await? {
                let others = not(&self.is_of(&batch)?)?;
                let kept = as_in(self.table, &filter_record_batch(&batch, &others)?)?;
                if kept.num_rows() > 0 {
                    write_days(writer, kept).await?;
                }
            }
            removed.push(file.removal);
        }
        Ok(removed)
    }

    /// The files that may contain rows of the sources. The table's log has the least and the
    /// greatest source id of each file.
    fn candidates(&self) -> Result<Vec<File>, DeltaTableError> {
        let rows = single_files(self.table, self.opened)
            .map_err(|error| DeltaTableError::Generic(error.to_string()))?;
        let logged = self.opened.snapshot()?.log_data();
        let files = logged.iter().zip(rows).filter_map(|(file, rows)| {
            let stats = file.stats();
            let stats = stats.and_then(|text| serde_json::from_str(&text).ok());
            may_contain(&stats.unwrap_or_default(), self.source_ids).then(|| File {
                rows,
                removal: file.remove_action(true),
            })
        });
        Ok(files.collect())
    }

    /// Whether a file contains at least one row that is to be removed.
    async fn is_in(&self, file: &File) -> Result<bool, DeltaTableError> {
        let frame = self.session.read_table(Arc::clone(&file.rows))?;
        let frame = frame.select_columns(&[SOURCE_ID])?;
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            if self.is_of(&batch)?.true_count() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// For each row of a batch, whether it is to be removed because it belongs to one of the
    /// sources.
    fn is_of(&self, batch: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let ids = batch.column(batch.schema().index_of(SOURCE_ID)?);
        let ids = cast(ids, &DataType::Utf8)?;
        let is_of = |id: Option<&str>| Some(id.is_some_and(|id| self.source_ids.contains(id)));
        Ok(ids.as_string::<i32>().iter().map(is_of).collect())
    }
}

/// Converts the columns of rows that a query returned to the types and the order of the table.
fn as_in(table: Table, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = table.schema();
    let columns = schema.fields().iter().map(|field| {
        let column = rows.column(rows.schema().index_of(field.name())?);
        cast(column, field.data_type())
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

/// Whether a file may contain rows of the sources, according to the least and greatest source id in
/// its statistics.
fn may_contain(stats: &Value, source_ids: &BTreeSet<String>) -> bool {
    let bound = |key: &str| stats[key][SOURCE_ID].as_str();
    match (bound("minValues"), bound("maxValues")) {
        (Some(least), Some(greatest)) => {
            let from = (Bound::Included(least), Bound::Unbounded);
            let next = source_ids.range::<str, _>(from).next();
            next.is_some_and(|id| id.as_str() <= greatest)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_left_out_by_their_least_and_greatest_id() {
        let ids: BTreeSet<String> = ["b", "m"].map(str::to_owned).into();
        let stats = |least: &str, greatest: &str| json!({"minValues": {"source_id": least}, "maxValues": {"source_id": greatest}});
        for (least, greatest, expected) in [
            ("a", "c", true),
            ("b", "b", true),
            ("c", "l", false),
            ("c", "m", true),
            ("n", "z", false),
            ("a", "a", false),
        ] {
            let found = may_contain(&stats(least, greatest), &ids);
            assert_eq!(found, expected, "{least} to {greatest}");
        }
        assert!(may_contain(&Value::Null, &ids), "unknown");
    }
}
