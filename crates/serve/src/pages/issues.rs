//! The page with the issues of every served folder: problems recognized across runs, with their
//! states from the folder's `issues.json`. A request that changes an issue needs the token and must
//! come from a page of this server; `access.rs` checks this before the request arrives here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Form, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use stormlog_analysis::issue::{
    DecidedState, Decision, Issue, read_states_of, severity_rank, sidecar_of, store_decision,
};
use stormlog_format::{Text, Value, counted};
use stormlog_report::{bytes, level_word, time};

use crate::access::MayChange;
use crate::app::App;
use crate::replies::{message, reading, rendered};
use crate::runs::Listing;

/// How long a page waits for the search before it shows that the search is still in progress.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The largest number of characters stored as the reason for a decision about an issue.
const LONGEST_REASON: usize = 500;

#[derive(askama::Template)]
#[template(path = "issues.html")]
struct Page {
    folders: Vec<Folder>,
    may_change: bool,
    is_waiting: bool,
}

struct Folder {
    number: usize,
    name: String,
    rows: Vec<Row>,
    /// Why the states of issues in the folder's `issues.json` cannot be read; `None` if they were
    /// read.
    damaged: Option<String>,
}

struct Row {
    id: String,
    short_id: String,
    state: &'static str,
    severity: String,
    level: String,
    size: String,
    title: String,
    kind: String,
    seen: String,
    hits: String,
    /// The id and the name of each run that has the issue.
    runs: Vec<(String, String)>,
    said: String,
    is_open: bool,
}

/// Serves the page that lists the issues of all served folders.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Extension(MayChange(may_change)): Extension<MayChange>,
) -> Result<Response, Response> {
    let for_search = Arc::clone(&app);
    let filling = tokio::task::spawn_blocking(move || for_search.issues.fill(&for_search.runs));
    let is_late = tokio::time::timeout(PATIENCE, filling).await.is_err();
    reading(move || {
        let found = app.issues.get();
        let listing = app.runs.known();
        let now = app.machine.now_ns();
        let folders = app.runs.roots.iter().zip(&found.folders).enumerate();
        let folders = folders.map(|(number, (root, issues))| {
            let mut issues = Vec::clone(issues);
            let states = read_states_of(root);
            let damaged = states.as_ref().err().map(ToString::to_string);
            let states = states.ok().flatten().unwrap_or_default();
            states.apply(&mut issues, now);
            issues.sort_by_key(|issue| {
                let is_open = is_open(issue.state);
                let newest = std::cmp::Reverse(issue.last_seen_ns);
                (!is_open, severity_rank(&issue.severity), newest)
            });
            Folder {
                number,
                name: root.display().to_string(),
                rows: issues.iter().map(|issue| row(issue, &listing)).collect(),
                damaged,
            }
        });
        rendered(&Page {
            folders: folders.collect(),
            may_change,
            is_waiting: is_late || found.at.is_none(),
        })
    })
    .await
}

fn is_open(state: &str) -> bool {
    !["resolved", "ignored"].contains(&state)
}

fn row(issue: &Issue, listing: &Listing) -> Row {
    let mut runs: Vec<(String, String)> = Vec::new();
    for session in issue.affected_sessions.iter().take(50) {
        let run = listing.of_session(session);
        if let Some(run) = run.filter(|run| !runs.iter().any(|(id, _)| *id == run.id)) {
            runs.push((run.id.clone(), run.name.clone()));
        }
    }
    let id = issue.fingerprint_id.to_string();
    let short = id.strip_prefix("issue:").unwrap_or(&id);
    let said = issue.state_info.as_ref().map_or_else(String::new, |said| {
        let text = |value: &Value| value.as_text().map(ToString::to_string);
        match (text(&said.changed_by), text(&said.reason)) {
            (Some(by), Some(reason)) => format!("{by}: {reason}"),
            (Some(by), None) => format!("by {by}"),
            (None, reason) => reason.unwrap_or_default(),
        }
    });
    let size = issue.details.get("magnitude_bytes").and_then(Value::as_int);
    Row {
        short_id: short.chars().take(8).collect(),
        state: issue.state,
        severity: issue.severity.to_string(),
        level: level_word(&issue.severity.to_str_lossy()).to_owned(),
        size: size.map_or_else(String::new, |size| format!(", {}", bytes::human(size))),
        title: issue.title.to_string(),
        kind: issue.kind.to_string(),
        seen: match (issue.first_seen_ns, issue.last_seen_ns) {
            (Some(first), Some(last)) if first != last => {
                format!("first {}, last {}", time::moment(first), time::moment(last))
            }
            (_, last) => last.map_or_else(String::new, |last| format!("at {}", time::moment(last))),
        },
        hits: match issue.hit_count() {
            1 => "once".to_owned(),
            count => counted(count, "time"),
        },
        runs,
        said,
        is_open: is_open(issue.state),
        id,
    }
}

/// Resolves, ignores or reopens an issue. `access.rs` has already checked the token and the origin
/// of the request.
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Response> {
    let fields: HashMap<String, String> = pairs.into_iter().collect();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let state = match field("state").as_str() {
        "resolved" => DecidedState::Resolved,
        "ignored" => DecidedState::Ignored { until_ns: None },
        "open" => DecidedState::Open,
        _ => {
            let text = "The state must be resolved, ignored or open.";
            return Err(message(StatusCode::BAD_REQUEST, "Unknown state", text));
        }
    };
    let reason: String = field("reason")
        .trim()
        .chars()
        .take(LONGEST_REASON)
        .collect();
    let (folder, id) = (field("folder").parse::<usize>().ok(), field("id"));
    let made = reading(move || {
        app.issues.fill(&app.runs);
        let found = app.issues.get();
        let index = folder.filter(|index| *index < app.runs.roots.len());
        let issues = index.and_then(|index| found.folders.get(index).cloned());
        let issue = issues.as_ref().and_then(|issues| {
            let mut issues = issues.iter();
            issues.find(|issue| issue.fingerprint_id.to_str_lossy() == id)
        });
        let (Some(index), Some(issues), Some(issue)) = (index, &issues, issue) else {
            return Err("This issue no longer exists in the runs.".to_owned());
        };
        let decision = Decision {
            state,
            by: app.machine.user().into(),
            at_ns: app.machine.now_ns(),
            reason: (!reason.is_empty()).then(|| Text::from(reason)),
        };
        let file = sidecar_of(&app.runs.roots[index]);
        let changed = store_decision(&file, issues, issue, &decision);
        changed.map(|_| ()).map_err(|error| error.to_string())
    });
    match made.await? {
        Ok(()) => Ok((StatusCode::SEE_OTHER, [(header::LOCATION, "/issues")]).into_response()),
        Err(error) => Err(message(StatusCode::CONFLICT, "Nothing was changed", &error)),
    }
}
