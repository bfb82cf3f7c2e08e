//! Runs SQL statements in a session that has the tables of a lake.

use datafusion::arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion_distributed::display_plan_ascii;
use futures::{StreamExt, TryStreamExt, stream};
use stormlog_lake_tables::{Lake, Table};

use crate::cluster::Cluster;
use crate::error::AskError;
use crate::{functions, views};

/// A stream of rows is returned to the caller only after this many rows, or all rows of the result,
/// have arrived. Until then, a query that loses a worker can be run again, because the caller has
/// seen no rows. Most results have fewer rows than this number.
const AWAITED_ROWS: usize = 10_000;

/// Answers queries over the tables of a lake; nothing that it runs changes the tables.
#[derive(Clone)]
pub struct Asker {
    lake: Lake,
    /// The session has only the tables and views that statements have named so far, because opening
    /// a table means reading its log.
    session: SessionContext,
    /// The worker processes that run queries; `None` if this process runs them without workers.
    cluster: Option<Cluster>,
}

impl Asker {
    /// Makes an object that runs queries in this process, without workers.
    pub fn here(lake: &Lake) -> Result<Self, AskError> {
        Self::new(lake, SessionContext::from(lake.state()?.build()), None)
    }

    /// Makes an object that runs queries on the workers of a cluster.
    pub fn on(lake: &Lake, cluster: Cluster) -> Result<Self, AskError> {
        let state = cluster.planning(lake.state()?)?;
        Self::new(lake, SessionContext::from(state.build()), Some(cluster))
    }

    fn new(
        lake: &Lake,
        mut session: SessionContext,
        cluster: Option<Cluster>,
    ) -> Result<Self, AskError> {
        functions::register(&mut session)?;
        Ok(Self {
            lake: lake.clone(),
            session,
            cluster,
        })
    }

    /// Opens the tables and views that a statement names, unless they are open already. A statement
    /// that names anything else, such as `information_schema`, opens all of them.
    async fn open_for(&self, statement: &str) -> Result<(), AskError> {
        let state = self.session.state();
        // A statement that cannot be parsed fails later, when it is planned.
        let Ok(mut names) = views::relations(&state, statement) else {
            return Ok(());
        };
        let is_known = |name: &String| Table::named(name).is_some() || views::named(name).is_some();
        let opens_all = !names.iter().all(is_known);
        let views: Vec<_> = views::VIEWS
            .into_iter()
            .filter(|(name, _)| opens_all || names.contains(*name))
            .collect();
        for (_, statement) in &views {
            names.extend(views::relations(&state, statement)?);
        }
        let is_missing = |name: &str| !self.session.table_exist(name).unwrap_or(false);
        let tables = Table::ALL.into_iter().filter(|table| {
            let name = table.name();
            (opens_all || names.contains(name)) && is_missing(name)
        });
        self.lake.register(&self.session, tables).await?;
        for (name, statement) in views {
            if is_missing(name) {
                self.session.sql(statement).await?;
            }
        }
        Ok(())
    }

    /// Runs one SQL statement that only reads, and returns its rows.
    pub async fn sql(&self, statement: &str) -> Result<SendableRecordBatchStream, AskError> {
        self.check(statement).await?;
        self.stream(statement).await
    }

    /// The physical plan of a statement as text; it also shows which parts of the plan workers run.
    pub async fn explain(&self, statement: &str) -> Result<String, AskError> {
        self.check(statement).await?;
        let frame = self.session.sql(statement).await?;
        let plan = frame.create_physical_plan().await?;
        Ok(display_plan_ascii(plan.as_ref(), false))
    }

    /// Returns an error for everything except one SQL statement that only reads.
    async fn check(&self, statement: &str) -> Result<(), AskError> {
        self.open_for(statement).await?;
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

    /// Runs a statement that this crate has built, and returns all rows. Such a statement needs no
    /// check.
    pub(crate) async fn batches(&self, statement: &str) -> Result<Vec<RecordBatch>, AskError> {
        self.open_for(statement).await?;
        loop {
            let frame = self.session.sql(statement).await?;
            match frame.collect().await {
                Ok(batches) => return Ok(batches),
                Err(error) => self.retry_after(error.into()).await?,
            }
        }
    }

    /// Runs a statement that this crate has built and returns its rows as a stream. The first rows
    /// are awaited here, and if a worker is lost meanwhile, the query is run again; if a worker is
    /// lost later, the stream ends with an error.
    pub(crate) async fn stream(
        &self,
        statement: &str,
    ) -> Result<SendableRecordBatchStream, AskError> {
        self.open_for(statement).await?;
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

/// A text as a string literal for a SQL statement: in single quotes, with inner quotes doubled.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
