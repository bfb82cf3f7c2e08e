//! The errors of queries over a lake.

use datafusion::error::DataFusionError;
use stormlog_compat::correlate::CorrelationError;
use stormlog_lake_tables::LakeError;

/// Why a query over a lake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The lake (the directory or bucket with the tables) cannot be opened or read.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The SQL engine rejected a statement or failed while running it; contains its message.
    #[error("{0}")]
    Engine(String),
    /// A statement of the user would change something, or is not valid SQL; contains the reason.
    #[error("'sql' runs one statement that only reads: {0}")]
    NotAQuestion(String),
    /// A cell of a table has a value that an ingest never writes, such as an unknown session
    /// status.
    #[error("table '{table}', column '{column}': {reason}")]
    Cell {
        /// The name of the table that contains the cell.
        table: &'static str,
        /// The name of the column that contains the cell.
        column: &'static str,
        /// What is wrong with the value of the cell.
        reason: String,
    },
    /// A query `correlate` has no point in time around which it can look for events: none was
    /// given, the given record is unknown, or its time differs from the time that was also given.
    #[error(transparent)]
    Moment(#[from] CorrelationError),
    /// The cluster has no worker that can be used, or a worker failed; contains the reason.
    #[error("{0}")]
    Cluster(String),
}

impl From<DataFusionError> for AskError {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(first_line(&error.strip_backtrace()))
    }
}

/// The message of the SQL engine, shortened if it is very long; such messages contain addresses of
/// files, but no credentials.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 2_000;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
