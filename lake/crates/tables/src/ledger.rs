//! Reads from a table's own log how far each source is stored in the table.
//!
//! Every commit of rows carries one application transaction (`txn`) for each source: its id and the
//! position up to which its rows are stored. Rows and position are written in one atomic commit, so
//! that the table knows what it has stored, however an ingest ends. The log is read here directly,
//! because the Delta library can only find the position of one source at a time, each time from the
//! beginning of the log.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::object_store::ObjectStoreExt;
use deltalake::DeltaTable;
use deltalake::parquet::arrow::ProjectionMask;
use deltalake::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use futures::TryStreamExt;
use hashbrown::HashMap;
use serde_json::Value;

use crate::error::LakeError;
use crate::schema::Table;

/// The prefix of the application ids in a table's log that contain the id of a source.
const PREFIX: &str = "stormlog:";

/// For each source id, the position in the source up to which its rows are stored in a table.
#[derive(Clone, Debug, Default)]
pub struct Ledger(HashMap<String, i64>);

impl Ledger {
    /// The position up to which a source is stored; `None` for an unknown source.
    pub fn position(&self, source_id: &str) -> Option<i64> {
        self.0.get(source_id).copied()
    }

    /// Notes that the rows of a source are stored up to a position.
    pub fn advance(&mut self, source_id: &str, position: i64) {
        self.0.insert(source_id.to_owned(), position);
    }

    /// The application id under which the log of a table contains the position of a source.
    pub fn app_id(source_id: &str) -> String {
        format!("{PREFIX}{source_id}")
    }

    fn note(&mut self, app_id: &str, version: i64) {
        if let Some(source_id) = app_id.strip_prefix(PREFIX) {
            self.0.insert(source_id.to_owned(), version);
        }
    }
}

/// Reads the positions of all sources in a table, as of the table version that is loaded.
pub async fn read_ledger(table: Table, opened: &DeltaTable) -> Result<Ledger, LakeError> {
    let failed = |reason: String| LakeError::Log {
        table: table.name(),
        reason,
    };
    let version = opened.version().unwrap_or_default();
    let store = opened.log_store().object_store(None);
    let prefix = deltalake::Path::from("_delta_log");
    let listed = store.list(Some(&prefix)).try_collect::<Vec<_>>().await;
    let listed = listed.map_err(|error| failed(error.to_string()))?;
    let mut commits = Vec::new();
    let mut checkpoints = Vec::new();
    for file in listed {
        let name = file.location.filename().unwrap_or_default().to_owned();
        match name.split_once('.') {
            Some((number, "json")) => commits.extend(number.parse().ok().map(|n: u64| (n, name))),
            Some((number, rest)) if rest.starts_with("checkpoint.") => {
                checkpoints.extend(number.parse().ok().map(|n: u64| (n, name)));
            }
            _ => {}
        }
    }
    commits.sort();
    let is_seen = |number: u64| i128::from(number) <= i128::from(version);
    checkpoints.retain(|(number, _)| is_seen(*number));
    let newest = checkpoints.iter().map(|(number, _)| *number).max();
    let mut ledger = Ledger::default();
    let get = |name: &str| {
        let path = deltalake::Path::from(format!("_delta_log/{name}"));
        let store = Arc::clone(&store);
        async move { store.get(&path).await?.bytes().await }
    };
    // A checkpoint may have several parts; all parts of the newest one are read.
    for (_, name) in checkpoints.iter().filter(|(n, _)| Some(*n) == newest) {
        let bytes = get(name).await;
        let bytes = bytes.map_err(|error| failed(format!("'{name}': {error}")))?;
        read_checkpoint(bytes, &mut ledger)
            .map_err(|error| failed(format!("'{name}': {error}")))?;
    }
    let later = commits
        .iter()
        .filter(|(number, _)| newest.is_none_or(|newest| *number > newest) && is_seen(*number));
    for (_, name) in later {
        let bytes = get(name).await;
        let bytes = bytes.map_err(|error| failed(format!("'{name}': {error}")))?;
        for line in bytes.split(|byte| *byte == b'\n') {
            read_action(line, &mut ledger);
        }
    }
    Ok(ledger)
}

/// Reads one line of a commit; a line that is not a transaction is skipped without parsing.
fn read_action(line: &[u8], ledger: &mut Ledger) {
    if !line.trim_ascii_start().starts_with(b"{\"txn\"") {
        return;
    }
    let Ok(action) = serde_json::from_slice::<Value>(line) else {
        return;
    };
    let txn = &action["txn"];
    if let (Some(app_id), Some(version)) = (txn["appId"].as_str(), txn["version"].as_i64()) {
        ledger.note(app_id, version);
    }
}

fn read_checkpoint(bytes: Bytes, ledger: &mut Ledger) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|e| text(&e))?;
    let columns = ["txn.appId", "txn.version"];
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
    let reader = builder
        .with_projection(mask)
        .build()
        .map_err(|e| text(&e))?;
    for batch in reader {
        let batch = batch.map_err(|e| text(&e))?;
        let Some(txn) = batch.column_by_name("txn") else {
            return Ok(());
        };
        let txn = txn.as_struct_opt().ok_or("'txn' is no struct")?;
        let column = |name: &str| txn.column_by_name(name).cloned();
        let (Some(ids), Some(versions)) = (column("appId"), column("version")) else {
            return Err("'txn' lacks a field".to_owned());
        };
        let ids = cast(&ids, &DataType::Utf8).map_err(|e| text(&e))?;
        let versions = cast(&versions, &DataType::Int64).map_err(|e| text(&e))?;
        let ids = ids.as_string::<i32>();
        let versions = versions.as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            if txn.is_valid(row) && ids.is_valid(row) && versions.is_valid(row) {
                ledger.note(ids.value(row), versions.value(row));
            }
        }
    }
    Ok(())
}
