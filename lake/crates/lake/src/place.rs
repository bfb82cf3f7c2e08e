//! Which lake a question is put to.

use anyhow::Result;
use clap::Args;
use stormlog_lake_ask::Asker;
use stormlog_lake_tables::Lake;

/// Where the tables are.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// The lake: a directory or `s3://bucket/prefix`
    #[arg(long, value_name = "URL", env = "STORMLOG_LAKE")]
    at: String,
}

impl Place {
    /// Opens the lake for questions.
    pub(crate) async fn open(&self) -> Result<Asker> {
        let lake = Lake::at(&self.at)?;
        Ok(Asker::new(lake.session().await?).await?)
    }
}
