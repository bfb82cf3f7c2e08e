//! The workers of a cluster, as seen by the process that sends queries to them.
//!
//! Queries are distributed by `datafusion-distributed`: this process plans and coordinates, and
//! workers run parts of plans and stream rows to each other. Workers keep nothing between queries,
//! so a query that lost a worker is run again on the remaining workers.

mod channels;
mod worker;

use std::fmt::Write as _;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::SessionStateBuilder;
use datafusion_distributed::{
    ChannelResolver, DistributedExt, GetWorkerInfoRequest, SessionStateBuilderExt, WorkerResolver,
};
use futures::future::join_all;
use url::Url;

use channels::Channels;
pub use worker::serve;

use crate::error::AskError;

/// How long a worker may take to report its version and its number of threads.
const INFO_TIMEOUT: Duration = Duration::from_secs(5);

/// How many bytes of Parquet files one task of a distributed plan reads by default.
const BYTES_PER_TASK: usize = 16 << 20;

/// The workers of a cluster and the connections to them.
#[derive(Clone)]
pub struct Cluster {
    /// Every address that the user gave, and the workers that its host name resolves to.
    named: Vec<(String, Vec<Url>)>,
    live: LiveWorkers,
    channels: Channels,
    /// The largest number of threads that a worker of the cluster has.
    threads: usize,
    bytes_per_task: usize,
    warnings: Vec<String>,
}

/// The addresses of the workers that answered when they were last asked for their version.
#[derive(Clone, Default)]
struct LiveWorkers(Arc<RwLock<Vec<Url>>>);

impl LiveWorkers {
    fn get(&self) -> Vec<Url> {
        let live = self.0.read();
        live.map_or_else(|error| error.into_inner().clone(), |live| live.clone())
    }

    fn set(&self, urls: Vec<Url>) {
        match self.0.write() {
            Ok(mut live) => *live = urls,
            Err(error) => *error.into_inner() = urls,
        }
    }
}

impl WorkerResolver for LiveWorkers {
    fn get_urls(&self) -> EngineResult<Vec<Url>, DataFusionError> {
        Ok(self.get())
    }
}

impl Cluster {
    /// Finds the workers at the given addresses `http://HOST:PORT`, which are separated by commas.
    /// A host name with several addresses stands for a worker at each of them.
    pub async fn at(addresses: &str) -> Result<Self, AskError> {
        let mut named = Vec::new();
        for address in addresses.split(',') {
            let address = address.trim();
            named.push((address.to_owned(), workers_behind(address).await?));
        }
        let mut cluster = Self {
            named,
            live: LiveWorkers::default(),
            channels: Channels::default(),
            threads: 1,
            bytes_per_task: BYTES_PER_TASK,
            warnings: Vec::new(),
        };
        cluster.connect().await?;
        Ok(cluster)
    }

    /// Sets how many bytes of Parquet files one task of a distributed plan reads; with fewer bytes,
    /// more workers are used.
    #[must_use]
    pub fn with_bytes_per_task(mut self, bytes: usize) -> Self {
        self.bytes_per_task = bytes.max(1);
        self
    }

    /// One text for each given address at which no worker can be used, with the reason.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Asks every worker for its version and its number of threads, and remembers which can be
    /// used. Fails if none can be used.
    async fn connect(&mut self) -> Result<(), AskError> {
        let mut live = Vec::new();
        for (address, urls) in &self.named {
            let answers = join_all(urls.iter().map(|url| self.info(url))).await;
            let mut reasons = String::new();
            let mut found = false;
            for (url, answer) in urls.iter().zip(answers) {
                match answer {
                    Ok(threads) => {
                        found = true;
                        self.threads = self.threads.max(threads);
                        live.push(url.clone());
                    }
                    Err(reason) => {
                        let _ = write!(reasons, "; {reason}");
                    }
                }
            }
            if !found {
                let warning = format!("no worker at '{address}' can be used{reasons}");
                self.warnings.push(warning);
            }
        }
        if live.is_empty() {
            return Err(AskError::Cluster(self.warnings.join("; ")));
        }
        self.live.set(live);
        Ok(())
    }

    /// The number of threads of a worker; an error when the worker has another version than this
    /// program.
    async fn info(&self, url: &Url) -> Result<usize, String> {
        let asked = async {
            let mut worker = self.channels.get_worker_client_for_url(url).await?;
            worker.get_worker_info(GetWorkerInfoRequest {}).await
        };
        let answer = tokio::time::timeout(INFO_TIMEOUT, asked).await;
        let answer =
            answer.map_err(|_| format!("no answer within {} s", INFO_TIMEOUT.as_secs()))?;
        let answer = answer.map_err(|error| reason_of(&error))?;
        worker::threads_of(&answer.version)
    }

    /// Whether a worker that answered earlier does not answer now; later queries use the remaining
    /// workers.
    pub(crate) async fn has_lost_workers(&self) -> Result<bool, AskError> {
        let before = self.live.get();
        let answers = join_all(before.iter().map(|url| self.info(url))).await;
        let left = before.iter().zip(answers);
        let left: Vec<Url> = left
            .filter_map(|(url, answer)| answer.ok().map(|_| url.clone()))
            .collect();
        if left.is_empty() {
            return Err(AskError::Cluster("every worker was lost".to_owned()));
        }
        let lost = left.len() < before.len();
        self.live.set(left);
        Ok(lost)
    }

    /// Changes a session state so that its plans run on the workers.
    pub(crate) fn planning(&self, state: SessionStateBuilder) -> EngineResult<SessionStateBuilder> {
        let mut state = state;
        // A plan has as many partitions as the worker with the most threads has threads; the number
        // of cores of this machine does not matter. A plan has at least two partitions, because
        // with one partition the whole plan would run in this process.
        let config = state.config().take().unwrap_or_default();
        let state = state
            .with_config(config.with_target_partitions(self.threads.max(2)))
            .with_distributed_worker_resolver(self.live.clone())
            .with_distributed_channel_resolver(self.channels.clone())
            .with_distributed_file_scan_config_bytes_per_partition(self.bytes_per_task)?
            .with_distributed_planner();
        Ok(state)
    }
}

/// The workers at an address, one for each IP address of its host name.
async fn workers_behind(address: &str) -> Result<Vec<Url>, AskError> {
    let wrong = |reason: &str| {
        AskError::Cluster(format!(
            "'{address}' is no address of a worker: {reason}; write http://HOST:PORT"
        ))
    };
    let url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
    if url.scheme() != "http" {
        return Err(wrong("only 'http' is supported"));
    }
    let host = url.host_str().ok_or_else(|| wrong("it has no host"))?;
    let port = url.port().ok_or_else(|| wrong("it has no port"))?;
    let host = host.trim_matches(['[', ']']);
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| wrong(&error.to_string()))?;
    let urls = found.filter_map(|address| Url::parse(&format!("http://{address}")).ok());
    let mut urls: Vec<Url> = urls.collect();
    urls.sort();
    urls.dedup();
    Ok(urls)
}

/// The innermost cause of an error. The network library prints an error as nested structures, and
/// each structure repeats the text of the one inside it.
fn reason_of(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let innermost = text.rsplit(": ").next().unwrap_or(&text);
    let is_punctuation = |c: char| c.is_whitespace() || "\"'{}()[],".contains(c);
    innermost.trim_matches(is_punctuation).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_names_a_host_and_a_port() {
        let found = workers_behind("http://127.0.0.1:7000").await.unwrap();
        assert_eq!(found, [Url::parse("http://127.0.0.1:7000").unwrap()]);
        for wrong in [
            "127.0.0.1",
            "s3://bucket",
            "http://127.0.0.1",
            "localhost:70",
        ] {
            let error = workers_behind(wrong).await.unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[tokio::test]
    async fn a_cluster_without_workers_is_an_error() {
        // This port was free a moment ago, so no worker listens there.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Cluster::at(&address).await.err().unwrap().to_string();
        assert!(error.contains(&address), "{error}");
        assert!(error.ends_with("; Connection refused"), "{error}");
    }
}
