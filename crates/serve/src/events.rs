//! Server-sent events: a visible page receives the state of its files when it changes,
//! and asks for the new drawing itself. Nothing is read for hidden pages: a hidden
//! page closes its stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;

use crate::app::{App, reading};
use crate::pages::not_found;

/// Streams beyond this number are refused; each costs a look at its files twice a second.
const MOST_STREAMS: usize = 64;
/// How often files are looked at, and the largest share of the time that it may take.
const LEAST_INTERVAL: Duration = Duration::from_millis(400);
const SHARE: u32 = 20;

/// The list: an event whenever a run or a digest is new.
pub(crate) async fn of_list(State(app): State<Arc<App>>) -> Response {
    stream(app, |app| {
        let listing = app.runs.look();
        app.digests.keep(&listing.runs);
        Some(listing.value.wrapping_add(app.digests.made()))
    })
}

/// A run: an event whenever its files have changed, or its process has ended.
pub(crate) async fn of_run(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    let (own, wanted) = (Arc::clone(&app), id.clone());
    match reading(move || own.entry(&wanted).is_some()).await {
        Ok(true) => {}
        Ok(false) => return not_found().await,
        Err(failure) => return failure,
    }
    stream(app, move |app| {
        // New ranks are noticed by looking through the folders.
        app.runs.look();
        let entry = app.entry(&id)?;
        Some(entry.stamp.value.wrapping_add(u64::from(entry.is_running)))
    })
}

fn stream(app: Arc<App>, state: impl Fn(&App) -> Option<u64> + Clone + Send + 'static) -> Response {
    if app.digests.streams.fetch_add(1, Ordering::SeqCst) >= MOST_STREAMS {
        app.digests.streams.fetch_sub(1, Ordering::SeqCst);
        let text = "too many pages are open; close some of them\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    let (sender, receiver) = mpsc::channel(1);
    let mut stopping = app.stopping.clone();
    tokio::spawn(async move {
        let follow = follow(&app, state, sender);
        tokio::select! {
            () = stopping.wait() => {}
            () = follow => {}
        }
        if app.digests.streams.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Nobody follows a run any more.
            app.live.clear();
        }
    });
    Sse::new(Events(receiver))
        .keep_alive(KeepAlive::default())
        .into_response()
}

async fn follow(
    app: &Arc<App>,
    state: impl Fn(&App) -> Option<u64> + Clone + Send + 'static,
    sender: mpsc::Sender<u64>,
) {
    let mut last = None;
    loop {
        let (own, read) = (Arc::clone(app), state.clone());
        let begun = Instant::now();
        let Ok(now) = tokio::task::spawn_blocking(move || read(&own)).await else {
            return;
        };
        let took = begun.elapsed();
        if now.is_some() && now != last {
            last = now;
            if sender.send(now.unwrap_or_default()).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(LEAST_INTERVAL.max(took * SHARE)) => {}
        }
    }
}

/// The states as events.
struct Events(mpsc::Receiver<u64>);

impl futures_core::Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_recv(context);
        next.map(|state| Some(Ok(Event::default().data(format!("{:016x}", state?)))))
    }
}
