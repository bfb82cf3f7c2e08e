//! The server of a worker process, which runs parts of query plans over the files of one lake.

use std::future::Future;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion_distributed::{DistributedExt, Worker, WorkerQueryContext};
use stormlog_lake_tables::Lake;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::channels::Channels;
use crate::error::AskError;
use crate::functions;

/// The version that a worker reports. A worker of another version is not used, because its SQL
/// functions and tables may differ.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a worker until the given future ends. Every process that can reach the listener can read
/// the whole lake.
pub async fn serve(
    lake: &Lake,
    listener: TcpListener,
    threads: usize,
    end: impl Future<Output = ()>,
) -> Result<(), AskError> {
    let channels = Channels::default();
    let session = move |query: WorkerQueryContext| {
        let channels = channels.clone();
        async move { session_of(query, channels) }
    };
    let worker = Worker::from_session_builder(session)
        .with_runtime_env(lake.runtime()?)
        .with_version(format!("{VERSION}/{threads}"));
    let served = Server::builder()
        .add_service(worker.into_worker_server())
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), end);
    served
        .await
        .map_err(|error| AskError::Cluster(error.to_string()))
}

fn session_of(
    query: WorkerQueryContext,
    channels: Channels,
) -> Result<SessionState, DataFusionError> {
    let mut state = query
        .builder
        .with_distributed_channel_resolver(channels)
        .build();
    functions::register(&mut state)?;
    Ok(state)
}

/// The number of threads in the text `<version>/<threads>` that a worker reports; an error if its
/// version differs from the version of this program.
pub(super) fn threads_of(reported: &str) -> Result<usize, String> {
    let (version, threads) = reported.split_once('/').unwrap_or((reported, ""));
    if version != VERSION {
        return Err(format!(
            "the worker has version '{version}', this program has {VERSION}"
        ));
    }
    let threads = threads.parse::<usize>().ok().filter(|threads| *threads > 0);
    threads.ok_or_else(|| format!("it reports no number of threads: '{reported}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_of_another_version_is_not_used() {
        assert_eq!(threads_of(&format!("{VERSION}/16")), Ok(16));
        for wrong in ["0.0.1/16", "", VERSION, &format!("{VERSION}/0")] {
            assert!(threads_of(wrong).is_err(), "{wrong}");
        }
    }
}
