//! Accepts connections and serves a router on them: a bounded number at a time, and only those
//! that send a request soon.
//!
//! The server runs in processes with other tasks (`stormlog track` records), which need file
//! descriptors and memory too, so clients may take only a small part of both.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::stopping::Stopping;

/// The largest number of open connections. A browser opens at most six to one server.
const MOST_CONNECTIONS: u64 = 128;
/// The server takes at most this part of the file descriptors that the process may open.
const PART_OF_FILES: u64 = 8;
/// How long a client may take to send the header of a request, and how long a connection stays
/// open between two requests.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// The largest header of a request in bytes.
const MOST_HEADER_BYTES: usize = 64 << 10;
/// The connections that have ended are removed from the list of connections when it is this long.
const MOST_LISTED: usize = 512;
/// How long no connection is accepted after an error, such as that the process has no file
/// descriptor left.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection that was accepted.
struct Open {
    /// Whether the client has sent a complete header.
    has_asked: Arc<AtomicBool>,
    /// Closes the connection.
    close: oneshot::Sender<()>,
}

fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    let most = files.map_or(MOST_CONNECTIONS, |files| files / PART_OF_FILES);
    usize::try_from(most.clamp(2, MOST_CONNECTIONS)).unwrap_or(2)
}

/// Serves a router on the connections to a listener until the server is stopped; returns when all
/// responses were sent.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stopping: Stopping) {
    let most = most_connections();
    let room = Arc::new(Semaphore::new(most));
    let accepting = stopping.clone();
    tokio::select! {
        () = accept(&listener, &router, &accepting, &room) => {}
        () = stopping.wait() => {}
    }
    drop(listener);
    // All permits are free when all connections are closed.
    let _ = room
        .acquire_many(u32::try_from(most).unwrap_or(u32::MAX))
        .await;
}

async fn accept(
    listener: &TcpListener,
    router: &Router,
    stopping: &Stopping,
    room: &Arc<Semaphore>,
) {
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let permit = if let Ok(permit) = room.clone().try_acquire_owned() {
            permit
        } else {
            // The oldest client that has sent no request makes room, so that clients that send none
            // cannot keep out those that do.
            open.retain(|one| !one.close.is_closed());
            let silent = open
                .iter()
                .position(|one| !one.has_asked.load(Ordering::Relaxed));
            if let Some(silent) = silent.and_then(|index| open.remove(index)) {
                let _ = silent.close.send(());
            }
            let Ok(permit) = room.clone().acquire_owned().await else {
                return;
            };
            permit
        };
        if open.len() >= MOST_LISTED {
            open.retain(|one| !one.close.is_closed());
        }
        let (close, closed) = oneshot::channel();
        let has_asked = Arc::new(AtomicBool::new(false));
        let connection = Connection {
            stream,
            has_asked: has_asked.clone(),
            closed,
            stopping: stopping.clone(),
            _permit: permit,
        };
        tokio::spawn(connection.serve(router.clone()));
        open.push_back(Open { has_asked, close });
    }
}

/// A connection while it is served.
struct Connection {
    stream: TcpStream,
    has_asked: Arc<AtomicBool>,
    closed: oneshot::Receiver<()>,
    stopping: Stopping,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(mut self, router: Router) {
        let has_asked = self.has_asked;
        let router = TowerToHyperService::new(router);
        let service = service_fn(move |request| {
            has_asked.store(true, Ordering::Relaxed);
            router.call(request)
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_PATIENCE)
            .max_buf_size(MOST_HEADER_BYTES);
        let connection = builder.serve_connection(TokioIo::new(self.stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = self.closed => return,
            () = self.stopping.wait() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}
