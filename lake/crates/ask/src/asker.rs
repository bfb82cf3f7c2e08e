//! Runs SQL statements in a session that has the tables of a lake.

use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion_distributed::display_plan_ascii;
use futures::{StreamExt, TryStreamExt, stream};
use stormlog_lake_tables::Lake;

use crate::cluster::Cluster;
use crate::error::AskError;
use crate::{functions, views};

/// The number of rows of a result that are awaited before it is returned; until then, a query that
/// loses a worker can be run again, and most results are complete by then.
const AWAITED_ROWS: usize = 10_000;

/// Answers queries over the tables of a lake; nothing that it runs changes the tables.
#[derive(Clone)]
pub struct Asker {
    session: SessionContext,
    /// The workers that run queries; `None` where this process runs them alone.
    cluster: Option<Cluster>,
}

impl Asker {
    /// Opens a lake for queries that this process runs alone.
    pub async fn here(lake: &Lake) -> Result<Self, AskError> {
        Self::new(lake, SessionContext::from(lake.state()?.build()), None).await
    }

    /// Opens a lake for queries that the workers of a cluster run.
    pub async fn on(lake: &Lake, cluster: Cluster) -> Result<Self, AskError> {
        let state = cluster.planning(lake.state()?)?;
        Self::new(lake, SessionContext::from(state.build()), Some(cluster)).await
    }

    async fn new(
        lake: &Lake,
        mut session: SessionContext,
        cluster: Option<Cluster>,
    ) -> Result<Self, AskError> {
        lake.register(&session).await?;
        functions::register(&mut session)?;
        views::register(&session).await?;
        Ok(Self { session, cluster })
    }

    /// Runs one SQL statement that only reads, and returns its rows.
    pub async fn sql(&self, statement: &str) -> Result<SendableRecordBatchStream, AskError> {
        self.check(statement).await?;
        self.stream(statement).await
    }

    /// The plan of a statement as text, with the parts that workers run.
    pub async fn explain(&self, statement: &str) -> Result<String, AskError> {
        self.check(statement).await?;
        let frame = self.session.sql(statement).await?;
        let plan = frame.create_physical_plan().await?;
        Ok(display_plan_ascii(plan.as_ref(), false))
    }

    /// Returns an error for everything except one SQL statement that only reads.
    async fn check(&self, statement: &str) -> Result<(), AskError> {
        let only_reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let state = self.session.state();
        let planned = state
            .create_logical_plan(statement)
            .await
            .and_then(|plan| only_reads.verify_plan(&plan));
        planned.map_err(|error| AskError::NotAQuestion(error.strip_backtrace()))
    }

    /// Runs a statement of this crate, which needs no check, and returns all rows.
    pub(crate) async fn batches(&self, statement: &str) -> Result<Vec<RecordBatch>, AskError> {
        loop {
            let frame = self.session.sql(statement).await?;
            match frame.collect().await {
                Ok(batches) => return Ok(batches),
                Err(error) => self.retry_after(error.into()).await?,
            }
        }
    }

    /// Runs a statement of this crate and returns its rows as a stream. The first rows are awaited
    /// here; if a worker is lost after them, the stream ends with an error.
    pub(crate) async fn stream(
        &self,
        statement: &str,
    ) -> Result<SendableRecordBatchStream, AskError> {
        loop {
            let frame = self.session.sql(statement).await?;
            let begun = async {
                let mut batches = frame.execute_stream().await?;
                let (mut first, mut rows) = (Vec::new(), 0);
                while rows < AWAITED_ROWS
                    && let Some(batch) = batches.try_next().await?
                {
                    rows += batch.num_rows();
                    first.push(batch);
                }
                Ok::<_, DataFusionError>((first, batches))
            };
            match begun.await {
                Ok((first, rest)) => {
                    let schema = rest.schema();
                    let batches = stream::iter(first.into_iter().map(Ok)).chain(rest);
                    return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)));
                }
                Err(error) => self.retry_after(error.into()).await?,
            }
        }
    }

    /// Returns `Ok` if the query should be run again on the remaining workers, because a worker was
    /// lost. Every other error is returned to the caller.
    async fn retry_after(&self, error: AskError) -> Result<(), AskError> {
        match &self.cluster {
            Some(cluster) if cluster.has_lost_workers().await? => Ok(()),
            _ => Err(error),
        }
    }
}

/// A text as a literal in SQL, with quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
