//! Binds an address and serves a router on threads of its own until it is stopped.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::access::{self, Access};
use crate::headers;
use crate::token::Token;

/// Two threads answer; what reads files runs on at most this many others. They exist while they are
/// needed. Requests for runs wait for each other, and the list must not wait behind them.
const READING_THREADS: usize = 32;
/// The largest body of a request. Changes are a few words.
const MOST_BODY_BYTES: usize = 16 * 1024;
/// How long answers under way may take after the server was asked to stop.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum ServeError {
    #[error("'{0}' is not an address: give HOST:PORT, such as 127.0.0.1:8321")]
    BadAddress(String),
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the threads of the server")]
    Threads(#[source] io::Error),
    #[error("cannot read the token from '{}'", path.display())]
    TokenFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the first line of '{}' is no token: it needs {least} or more letters, digits, '-', '_' or '.'",
        path.display()
    )]
    WeakToken { path: PathBuf, least: usize },
}

/// An address that this process holds, before anything is served on it.
#[derive(Debug)]
pub struct Binding {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    stop: watch::Sender<bool>,
}

impl Binding {
    /// Binds `HOST:PORT`; port 0 takes a free one.
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

    /// The bound address, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether only programs on this machine can connect; others need the token even to read.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// The address to open, with the token. It is to be printed once.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.secret())
    }

    /// The token, for those who read by a program.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// For answers that go on until the server stops.
    pub fn stopping(&self) -> Stopping {
        Stopping(self.stop.subscribe())
    }

    /// Serves a router under the rules of this crate, on threads of its own.
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
        let mut stopping = Stopping(self.stop.subscribe());
        let serving = runtime.spawn(async move {
            let until = async move { stopping.wait().await };
            axum::serve(listener, router)
                .with_graceful_shutdown(until)
                .await
        });
        Ok(Server {
            runtime,
            serving,
            stop: self.stop,
        })
    }
}

/// Ends when the server is stopped.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Waits until the server is stopped.
    pub async fn wait(&mut self) {
        // An error means that the server is gone, which is the same.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }
}

/// A server at work. It stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    serving: tokio::task::JoinHandle<io::Result<()>>,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Whether the server ended without being stopped.
    pub fn is_finished(&self) -> bool {
        self.serving.is_finished()
    }

    /// Takes no more connections, lets answers under way end for two seconds, and returns.
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
