//! Connections to workers.

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

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a silent worker is asked whether it is still there, and how long it may take to answer. A
/// machine that vanished without a word ends a question after both.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// One connection to each worker. It connects again when it was lost.
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
            std::collections::hash_map::Entry::Vacant(place) => {
                let endpoint = Endpoint::from_shared(url.to_string())
                    .map_err(|error| exec_datafusion_err!("worker '{url}': {error}"))?
                    .connect_timeout(CONNECT_TIMEOUT)
                    .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                    .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                    .keep_alive_while_idle(true)
                    .tcp_nodelay(true);
                place.insert(endpoint.connect_lazy()).clone()
            }
        };
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}
