//! The routes of `stormlog serve`.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;
use crate::error::ServeError;
use crate::machine::Machine;
use crate::pages::{assets, compare, issues, list, run};
use crate::stopping::Stopping;
use crate::{events, metrics, replies};

/// Makes the router that serves the pages about the runs in `folders`, and `/metrics` with the
/// memory use of the runs that are being recorded.
pub fn router(
    folders: Vec<PathBuf>,
    machine: Arc<dyn Machine>,
    stopping: Stopping,
) -> Result<Router, ServeError> {
    Ok(Router::new()
        .route("/", get(list::page))
        .route("/events", get(events::of_list))
        .route("/run/{id}", get(run::page))
        .route("/run/{id}/data", get(run::data))
        .route("/run/{id}/events", get(events::of_run))
        .route("/run/{id}/timeline.svg", get(run::picture))
        .route("/run/{id}/snapshot/{number}", get(run::snapshot))
        .route("/compare", get(compare::page))
        .route("/compare/data", get(compare::data))
        .route("/issues", get(issues::page))
        .route("/issues/decide", post(issues::decide))
        .route("/metrics", get(metrics::of_runs))
        .route("/assets/{name}", get(assets::get))
        .fallback(replies::not_found)
        .with_state(App::start(folders, machine, stopping)?))
}
