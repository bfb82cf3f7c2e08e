//! The errors of reading and writing a lake.

use deltalake::DeltaTableError;
use deltalake::datafusion::error::DataFusionError;

use crate::schema::Table;

/// Why a lake cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// The address that the user gave is not a valid address of a lake.
    #[error("'{address}' is no address of a lake: {reason}")]
    Address {
        /// The address as given, without user name, password and query.
        address: String,
        /// What is wrong with the address.
        reason: String,
    },
    /// There is no lake at the address.
    #[error("there is no lake at '{0}'")]
    NotFound(String),
    /// A table of the lake cannot be read or written.
    #[error("table '{table}': {source}")]
    Table {
        /// The table.
        table: &'static str,
        /// The error of the Delta library.
        source: Box<DeltaTableError>,
    },
    /// A column that this version of Stormlog needs is missing in a table or has another type.
    #[error("table '{table}' has no column '{column}' of type {wanted}")]
    Columns {
        /// The table.
        table: &'static str,
        /// The column that is missing or of another type.
        column: String,
        /// The type that this version needs for the column.
        wanted: String,
    },
    /// The Delta log of a table, which lists its files, cannot be read.
    #[error("the log of table '{table}' cannot be read: {reason}")]
    Log {
        /// The table.
        table: &'static str,
        /// The file of the log that cannot be read, and what is wrong with it.
        reason: String,
    },
    /// The SQL engine failed to run a query.
    #[error(transparent)]
    Query(#[from] Box<DataFusionError>),
}

impl From<DataFusionError> for LakeError {
    fn from(error: DataFusionError) -> Self {
        Self::Query(Box::new(error))
    }
}

/// Converts an error of the Delta library to an error about a table.
pub fn delta_error(table: Table, error: DeltaTableError) -> LakeError {
    LakeError::Table {
        table: table.name(),
        source: Box::new(error),
    }
}
