//! Why a query over a lake failed.

use datafusion::error::DataFusionError;
use stormlog_analysis::query::CorrelationError;
use stormlog_lake_tables::LakeError;

/// Why a query over a lake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The lake cannot be read.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The SQL engine refuses a statement or fails.
    #[error("{0}")]
    Engine(String),
    /// A statement would change something, or is not valid SQL.
    #[error("'sql' runs one statement that only reads: {0}")]
    NotAQuestion(String),
    /// A cell of a table has a value that no recording contains.
    #[error("table '{table}', column '{column}': {reason}")]
    Cell {
        /// The table with the cell.
        table: &'static str,
        /// The column with the cell.
        column: &'static str,
        /// What is wrong with the cell.
        reason: String,
    },
    /// A query `correlate` has no point in time around which it can look for events: none was
    /// given, or the given record is unknown or has another time.
    #[error(transparent)]
    Moment(#[from] CorrelationError),
    /// The cluster has no worker that can be used.
    #[error("{0}")]
    Cluster(String),
}

impl From<DataFusionError> for AskError {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(first_line(&error.strip_backtrace()))
    }
}

/// The first line of an engine's message, shortened; such messages contain addresses of files, but
/// no credentials.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 2_000;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
