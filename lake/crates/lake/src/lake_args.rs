//! The flags that select a lake and the processes that run queries on it.

use anyhow::Result;
use clap::Args;
use stormlog_lake_ask::{Asker, Cluster};
use stormlog_lake_tables::Lake;

use crate::error;

/// Where the tables are and which processes read them.
#[derive(Args, Debug)]
pub(crate) struct LakeArgs {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
    /// Answer on the workers at these addresses (http://HOST:PORT, separated by commas) instead of in
    /// this process; see 'stormlog lake cluster'
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE_ENGINE")]
    engine: Option<String>,
    /// How many bytes of files a task of a worker reads; fewer bytes use more workers
    #[arg(long, value_name = "BYTES", requires = "engine")]
    bytes_per_task: Option<usize>,
}

impl LakeArgs {
    /// Opens the lake for queries, and connects to the workers if the user gave their addresses.
    pub(crate) async fn open(&self) -> Result<Asker> {
        let lake = Lake::at(&self.at)?;
        let Some(addresses) = &self.engine else {
            return Ok(Asker::here(&lake)?);
        };
        let mut cluster = Cluster::at(addresses).await?;
        for warning in cluster.warnings() {
            error::warn(warning);
        }
        if let Some(bytes) = self.bytes_per_task {
            cluster = cluster.with_bytes_per_task(bytes);
        }
        Ok(Asker::on(&lake, cluster)?)
    }
}
