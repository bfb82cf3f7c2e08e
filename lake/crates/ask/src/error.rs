//! Why a question has no answer.

use datafusion::error::DataFusionError;
use stormlog_analysis::query::CorrelationError;
use stormlog_lake_tables::LakeError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The lake cannot be read.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The engine refuses or fails.
    #[error("{0}")]
    Engine(String),
    /// A statement would change something, or is not SQL.
    #[error("'sql' runs one statement that only reads: {0}")]
    NotAQuestion(String),
    /// A table has a cell that no recording has.
    #[error("table '{table}', column '{column}': {reason}")]
    Cell {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no moment to look around.
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

/// Messages of the engine name addresses of files, never credentials; only their length is bounded.
fn first_line(text: &str) -> String {
    const LONGEST: usize = 2_000;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
