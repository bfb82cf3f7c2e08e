//! The routes of `stormlog serve`, and the state that all of its pages share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use stormlog_analysis::Loaded;

use crate::digest::{Digest, Digests};
use crate::live::LiveRuns;
use crate::machine::Machine;
use crate::pages::{assets, compare, issues, list, run};
use crate::runs::{Entry, Runs};
use crate::server::{ServeError, Stopping};
use crate::view::{View, recordings};
use crate::{events, metrics, pages};

/// The limits of the cache of drawings: the number of bytes of all drawings together, and the
/// number of drawings.
const MOST_KEPT_BYTES: usize = 64 << 20;
const MOST_KEPT: usize = 16;

/// The state of the server, which the handlers of all requests share.
pub(crate) struct App {
    pub(crate) runs: Runs,
    pub(crate) digests: Arc<Digests>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) stopping: Stopping,
    pub(crate) live: Arc<LiveRuns>,
    pub(crate) numbers: metrics::Current,
    pub(crate) issues: issues::Cache,
    kept: Mutex<VecDeque<Kept>>,
    /// A lock that is held while a run is loaded for a page, because loading two runs at once would
    /// need twice the memory.
    loading: Mutex<()>,
}

/// A cached response, which is valid as long as the files of its run have not changed. `state` is a
/// hash that identifies the state of the files when the response was made.
struct Kept {
    key: String,
    state: u64,
    text: Arc<str>,
}

impl App {
    /// Returns the cached response for a state of a run's files, or makes a new response. When
    /// several requests need the same response at the same time, the first request makes the
    /// response and the other requests wait.
    pub(crate) fn kept_or(
        &self,
        key: &str,
        state: u64,
        make: impl FnOnce() -> Result<String, String>,
    ) -> Result<Arc<str>, String> {
        let find = || {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let mut kept = kept.iter();
            let one = kept.find(|one| one.key == key && one.state == state);
            one.map(|one| Arc::clone(&one.text))
        };
        if let Some(text) = find() {
            return Ok(text);
        }
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = find() {
            return Ok(text);
        }
        let text: Arc<str> = make()?.into();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.key != key);
        kept.push_front(Kept {
            key: key.to_owned(),
            state,
            text: Arc::clone(&text),
        });
        let bytes = |kept: &VecDeque<Kept>| kept.iter().map(|one| one.text.len()).sum::<usize>();
        while kept.len() > MOST_KEPT || (kept.len() > 1 && bytes(&kept) > MOST_KEPT_BYTES) {
            kept.pop_back();
        }
        Ok(text)
    }

    /// Loads a run for a page, and stores its digest (verdict, peak and other facts) for the list
    /// of runs.
    pub(crate) fn load(&self, entry: &Entry) -> Result<View, String> {
        let (view, ()) = self.load_with(entry, |_| Ok(()))?;
        Ok(view)
    }

    /// Like [`load`](Self::load), but also returns what `look` computes from the recordings of the
    /// run before they are dropped from memory.
    pub(crate) fn load_with<T>(
        &self,
        entry: &Entry,
        look: impl FnOnce(&[Loaded]) -> Result<T, String>,
    ) -> Result<(View, T), String> {
        let begun = Instant::now();
        let recordings = recordings(entry, &self.live)?;
        let looked = look(&recordings)?;
        let view = View::of(recordings, &*self.machine);
        self.digests.put(entry, Digest::of(&view), begun.elapsed());
        Ok((view, looked))
    }

    /// Finds a run by its id in URLs; `stamp` in the result is the current state of the run's
    /// files.
    pub(crate) fn entry(&self, id: &str) -> Option<Entry> {
        let mut entry = Entry::clone(&*self.runs.find(id)?);
        entry.stamp = entry.state();
        Some(entry)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.digests.stop();
    }
}

/// Makes the router that serves the pages about the runs in `folders`, and `/metrics` with the
/// memory use of the runs that are being recorded.
pub fn router(
    folders: Vec<PathBuf>,
    machine: Arc<dyn Machine>,
    stopping: Stopping,
) -> Result<Router, ServeError> {
    let live = Arc::<LiveRuns>::default();
    let digests = Digests::start(Arc::clone(&machine), Arc::clone(&live));
    let digests = digests.map_err(ServeError::Threads)?;
    let app = Arc::new(App {
        runs: Runs::new(folders, Arc::clone(&machine)),
        digests,
        machine,
        stopping,
        live,
        numbers: metrics::Current::default(),
        issues: issues::Cache::default(),
        kept: Mutex::default(),
        loading: Mutex::default(),
    });
    // The folders are searched for runs on a thread of their own, so that the first page does not
    // have to wait for the search.
    let first = Arc::clone(&app);
    std::thread::Builder::new()
        .name("stormlog-look".to_owned())
        .spawn(move || first.runs.look_first())
        .map_err(ServeError::Threads)?;
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
        .fallback(pages::not_found)
        .with_state(app))
}

/// Runs a function that reads files on a thread where blocking is allowed.
pub(crate) async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Response> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let text = "this page could not be made; the server keeps running\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    })
}

/// Like [`reading`], for functions that return `None` when what the request asks for does not exist;
/// then the response has status 404.
pub(crate) async fn found<T: Send + 'static>(
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Result<T, Response> {
    match reading(work).await? {
        Some(found) => Ok(found),
        None => Err(pages::not_found().await),
    }
}

/// Renders a template as an HTTP response with an HTML page.
pub(crate) fn rendered(template: &impl askama::Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            let text = format!("cannot render the page: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}
