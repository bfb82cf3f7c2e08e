//! Runs SQL in a session that has the tables of a lake.

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{DataFrame, SessionContext};

use crate::error::AskError;
use crate::views;

/// Answers questions over the tables of a lake. Nothing that it runs changes them.
#[derive(Clone)]
pub struct Asker {
    session: SessionContext,
}

impl Asker {
    /// Takes a session in which the tables are registered; adds the views and functions.
    pub async fn new(session: SessionContext) -> Result<Self, AskError> {
        crate::functions::register(&session);
        views::register(&session).await?;
        Ok(Self { session })
    }

    /// Plans one statement that only reads.
    pub async fn sql(&self, statement: &str) -> Result<DataFrame, AskError> {
        let only_reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let planned = self.session.sql_with_options(statement, only_reads).await;
        planned.map_err(|error| AskError::NotAQuestion(error.strip_backtrace()))
    }

    /// The answer to a question of our own.
    pub(crate) async fn batches(&self, statement: &str) -> Result<Vec<RecordBatch>, AskError> {
        Ok(self.session.sql(statement).await?.collect().await?)
    }

    /// The same, one batch at a time.
    pub(crate) async fn stream(
        &self,
        statement: &str,
    ) -> Result<SendableRecordBatchStream, AskError> {
        Ok(self.session.sql(statement).await?.execute_stream().await?)
    }
}

/// A text as a literal of SQL.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
