//! Serves `/metrics`: the current memory use of running recordings, in the text format that
//! Prometheus reads.

use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use stormlog_export::{Levels, prometheus};

use crate::app::App;
use crate::replies::reading;
use crate::runs::FIRST_WHOLE;

/// A function that renders the current metrics in the text format of Prometheus.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// A router that responds to `/metrics` with the rendered metrics. Rendering the metrics reads
/// files, so it runs on a thread where blocking is allowed.
pub fn metrics(content_type: &'static str, render: Render) -> Router {
    let answer = move || {
        let render = render.clone();
        async move {
            let text = tokio::task::spawn_blocking(move || render()).await;
            match text {
                Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
                Err(_) => axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    };
    Router::new().route("/metrics", get(answer))
}

/// Serves the metrics of all runs that are being recorded. Running recordings are found through the
/// list of runs.
pub(crate) async fn of_runs(State(app): State<Arc<App>>) -> Result<Response, Response> {
    let made = reading(move || {
        let recordings = &mut *app.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut levels = Levels::default();
        let listing = app.runs.at_once(FIRST_WHOLE);
        let now_ns = app.machine.now_ns();
        for run in listing.runs.iter().filter(|run| run.is_running) {
            for sink in &run.watched {
                recordings.read_sink(sink, now_ns, &mut levels);
            }
        }
        prometheus::render(&levels)
    });
    let kind = [(header::CONTENT_TYPE, prometheus::CONTENT_TYPE)];
    Ok((kind, made.await?).into_response())
}
