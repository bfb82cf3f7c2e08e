//! Server-sent events: a visible page receives an event when the files of its run change, and then
//! requests the new drawing. A hidden page closes its event stream, so no files are read for it.

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
use stormlog_analysis::Pace;
use tokio::sync::mpsc;

use crate::app::App;
use crate::replies::found;

/// The largest number of event streams. Further streams are refused, because for each stream the
/// server checks about twice a second whether files have changed.
const MOST_STREAMS: usize = 64;
/// The pause between two checks of a run's files.
const PACE: Pace = Pace::new(Duration::from_millis(400), 20);

/// The event stream of the list: an event whenever there is a new run or a new digest.
pub(crate) async fn of_list(State(app): State<Arc<App>>) -> Response {
    stream(app, |app| {
        let listing = app.runs.look();
        app.digests.keep(&listing.runs);
        Some(listing.value.wrapping_add(app.digests.made()))
    })
}

/// The event stream of a run: an event whenever its files have changed or its process has ended.
pub(crate) async fn of_run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Response, Response> {
    let (own, wanted) = (Arc::clone(&app), id.clone());
    found(move || own.entry(&wanted)).await?;
    Ok(stream(app, move |app| {
        // The folders are searched again, because a new rank of the run writes to a new folder.
        app.runs.look();
        let entry = app.entry(&id)?;
        Some(entry.stamp.value.wrapping_add(u64::from(entry.is_running)))
    }))
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
            // The last event stream has closed, so no page shows a running recording any more and
            // the loaded files are dropped.
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
            () = tokio::time::sleep(PACE.after(took)) => {}
        }
    }
}

/// A stream of server-sent events. Each event contains a number that identifies the new state of a
/// run or of the list of runs.
struct Events(mpsc::Receiver<u64>);

impl futures_core::Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_recv(context);
        next.map(|state| Some(Ok(Event::default().data(format!("{:016x}", state?)))))
    }
}
