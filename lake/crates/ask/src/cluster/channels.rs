//! The network connections of a query's coordinator, and of each worker, to the workers of a
//! cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::exec_datafusion_err;
use datafusion::error::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use tokio::sync::Mutex;
use tonic::transport::{Channel, Endpoint};
use url::Url;

/// The longest time that connecting to a worker may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a worker that sends nothing is asked whether it is still running, and how long its
/// answer may take. When a worker's machine disappears, a query ends with an error after the sum of
/// both times.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// One connection to each worker, by the address of the worker; a lost connection is made again.
#[derive(Clone, Default)]
pub(super) struct Channels(Arc<Mutex<HashMap<Url, Channel>>>);

#[async_trait::async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let channel = match self.0.lock().await.entry(url.clone()) {
            std::collections::hash_map::Entry::Occupied(known) => known.get().clone(),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let endpoint = Endpoint::from_shared(url.to_string())
                    .map_err(|error| exec_datafusion_err!("worker '{url}': {error}"))?
                    .connect_timeout(CONNECT_TIMEOUT)
                    .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                    .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                    .keep_alive_while_idle(true)
                    .tcp_nodelay(true);
                vacant.insert(endpoint.connect_lazy()).clone()
            }
        };
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}
