//! Runs SQL in a session that has the tables of a lake.

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
use crate::views;

/// Rows of an answer that are there before it is handed on. Most answers are complete then, and could be
/// asked for again until they were.
const AWAITED_ROWS: usize = 10_000;

/// Answers questions over the tables of a lake. Nothing that it runs changes them.
#[derive(Clone)]
pub struct Asker {
    session: SessionContext,
    /// The workers that answer, where this process does not do so alone.
    cluster: Option<Cluster>,
}

impl Asker {
    /// Opens a lake for questions that this process answers alone.
    pub async fn here(lake: &Lake) -> Result<Self, AskError> {
        Self::new(lake, SessionContext::from(lake.state()?.build()), None).await
    }

    /// Opens a lake for questions that the workers of a cluster answer.
    pub async fn on(lake: &Lake, cluster: Cluster) -> Result<Self, AskError> {
        let state = cluster.planning(lake.state()?)?;
        Self::new(lake, SessionContext::from(state.build()), Some(cluster)).await
    }

    async fn new(
        lake: &Lake,
        session: SessionContext,
        cluster: Option<Cluster>,
    ) -> Result<Self, AskError> {
        lake.register(&session).await?;
        crate::functions::register(&session);
        views::register(&session).await?;
        Ok(Self { session, cluster })
    }

    /// The rows of one statement that only reads.
    pub async fn sql(&self, statement: &str) -> Result<SendableRecordBatchStream, AskError> {
        self.check(statement).await?;
        self.stream(statement).await
    }

    /// How a statement would be answered: the plan, with the parts that workers run.
    pub async fn explain(&self, statement: &str) -> Result<String, AskError> {
        self.check(statement).await?;
        let frame = self.session.sql(statement).await?;
        let plan = frame.create_physical_plan().await?;
        Ok(display_plan_ascii(plan.as_ref(), false))
    }

    /// Refuses everything but one statement that only reads.
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

    /// The answer to a question of our own.
    pub(crate) async fn batches(&self, statement: &str) -> Result<Vec<RecordBatch>, AskError> {
        loop {
            let frame = self.session.sql(statement).await?;
            match frame.collect().await {
                Ok(batches) => return Ok(batches),
                Err(error) => self.retry_after(error.into()).await?,
            }
        }
    }

    /// The same, as a stream. The first rows are awaited here; after them the loss of a worker is an error.
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

    /// Returns when a question should be asked again, of the workers that are left: when one was lost.
    /// Every other error is an answer.
    async fn retry_after(&self, error: AskError) -> Result<(), AskError> {
        match &self.cluster {
            Some(cluster) if cluster.has_lost_workers().await? => Ok(()),
            _ => Err(error),
        }
    }
}

/// A text as a literal of SQL.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
