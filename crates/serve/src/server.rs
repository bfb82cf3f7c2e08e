//! Binds an address and serves a router on threads of the server's own until the server is stopped.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::access::{self, Access};
use crate::connections;
use crate::error::ServeError;
use crate::headers;
use crate::stopping::Stopping;
use crate::token::Token;

/// The largest number of threads that read files for requests, in addition to the two threads that
/// handle connections. Runs are loaded one after the other, and each request that waits for its
/// turn occupies a thread. The number of threads is large enough that a request for the list of
/// runs still finds a free thread.
const READING_THREADS: usize = 32;
/// The largest request body in bytes. The only request with a body changes the state of an issue
/// and needs only a few words.
const MOST_BODY_BYTES: usize = 16 * 1024;
/// How much time responses that are being sent get to finish after the server was stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// An address that this process has bound, on which nothing is served yet.
#[derive(Debug)]
pub struct Binding {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    stop: watch::Sender<bool>,
}

impl Binding {
    /// Binds `HOST:PORT`; with port 0 the system chooses a free port.
    pub fn bind(address: &str, token: Token) -> Result<Self, ServeError> {
        let bad = || ServeError::BadAddress(address.to_owned());
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(|_| bad())?.collect();
        if addresses.is_empty() {
            return Err(bad());
        }
        let failed = |source| ServeError::Listen {
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, _) = watch::channel(false);
        Ok(Self {
            listener,
            address,
            token,
            stop,
        })
    }

    /// The bound IP address and port; if port 0 was requested, the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether only programs on this machine can connect. If programs on other machines can
    /// connect, even reading requires the token.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// The URL that opens the server in a browser. It contains the token, so it should be printed
    /// only once.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.secret())
    }

    /// The token that requests must present, for programs that send requests to the server.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// A handle with which a response that is still being sent learns that the server stops.
    pub fn stopping(&self) -> Stopping {
        Stopping::new(self.stop.subscribe())
    }

    /// Serves a router on threads of the server's own. Requests that lack a required token are
    /// refused.
    pub fn serve(self, router: Router) -> Result<Server, ServeError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(READING_THREADS)
            .thread_name("stormlog-serve")
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServeError::Threads)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(ServeError::Threads)?
        };
        let access = Access::new(self.address, self.token);
        let router = router
            .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
            .layer(from_fn_with_state(access, access::check))
            .layer(from_fn(headers::add));
        let stopping = Stopping::new(self.stop.subscribe());
        let serving = runtime.spawn(async move {
            connections::serve(listener, router, stopping).await;
        });
        Ok(Server {
            runtime,
            serving,
            stop: self.stop,
        })
    }
}

/// A running server, which stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    serving: tokio::task::JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Whether the server has ended by itself, without a call of [`Self::stop`].
    pub fn is_finished(&self) -> bool {
        self.serving.is_finished()
    }

    /// Accepts no more connections, waits at most two seconds for running responses, and returns.
    pub fn stop(self) {
        self.stop.send_replace(true);
        let Self {
            runtime, serving, ..
        } = self;
        runtime.block_on(async {
            let _ = tokio::time::timeout(PATIENCE, serving).await;
        });
        runtime.shutdown_timeout(PATIENCE);
    }
}
