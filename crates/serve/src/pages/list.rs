//! The list of runs: runs are filtered, sorted and searched on the server, so that the list works
//! for thousands of runs and without scripts.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use stormlog_analysis::detect::Level;
use stormlog_analysis::pack::is_pack;
use stormlog_format::human_duration;
use stormlog_report::time::{self, LocalTime};
use stormlog_report::{Badge, run_name};

use super::words::{self, size, sparkline};
use crate::app::App;
use crate::digest::Digest;
use crate::replies::{reading, rendered};
use crate::runs::{Entry, FIRST_LIST, Listing, Peak};

/// The largest number of runs that one page of the list shows.
const ROWS: usize = 100;
const STATUSES: [(&str, &str); 5] = [
    ("", "all"),
    ("running", "running"),
    ("failed", "failed"),
    ("ended", "ended normally"),
    ("findings", "with findings"),
];
const SORTS: [(&str, &str); 5] = [
    ("", "newest"),
    ("name", "name"),
    ("duration", "longest"),
    ("peak", "highest peak"),
    ("verdict", "worst verdict"),
];

/// The query of a request for the list: search text, filter, order and page.
#[derive(Clone, Debug, Default)]
struct Wish {
    search: String,
    status: String,
    sort: String,
    page: usize,
    /// Whether only the rows are requested, because the rest of the page is already open in the
    /// browser.
    rows_only: bool,
}

impl Wish {
    fn of(pairs: Vec<(String, String)>) -> Self {
        let mut wish = Self::default();
        for (key, value) in pairs {
            match key.as_str() {
                "q" => wish.search = value,
                "status" => wish.status = value,
                "sort" => wish.sort = value,
                "page" => wish.page = value.parse().unwrap_or(1).max(1) - 1,
                "part" => wish.rows_only = value == "rows",
                _ => {}
            }
        }
        wish
    }
}

#[derive(askama::Template)]
#[template(path = "list.html")]
struct Page {
    wish: Wish,
    rows: Rows,
    statuses: &'static [(&'static str, &'static str)],
    sorts: &'static [(&'static str, &'static str)],
    roots: Vec<String>,
}

#[derive(askama::Template)]
#[template(path = "rows.html")]
struct Rows {
    shown: Vec<Row>,
    found: usize,
    all: usize,
    running: usize,
    page: usize,
    pages: usize,
    warnings: Vec<String>,
    /// Whether the first search of the folders for runs is still in progress.
    is_looking: bool,
    /// The query string of this list, to which a page number can be appended.
    query: String,
}

struct Row {
    id: String,
    name: String,
    /// The folder of the run, which identifies it among runs of one program.
    folder: String,
    end: String,
    end_class: &'static str,
    started: String,
    ago: String,
    duration: String,
    ranks: String,
    spark: String,
    memory: String,
    badge: Badge,
    verdict: String,
    command: String,
    commit: String,
}

/// A run in the list with its digest, if the run was already read.
struct Known {
    entry: Arc<Entry>,
    digest: Option<Arc<Digest>>,
}

impl Known {
    fn level(&self) -> Option<Level> {
        self.digest.as_ref()?.verdict.as_ref()?.level
    }

    fn has_findings(&self) -> bool {
        self.level() > Some(Level::Note)
    }

    fn is_accepted(&self, wish: &Wish) -> bool {
        let end = self.digest.as_ref().map(|digest| &digest.end);
        let is_running = self.entry.is_running;
        let fits = match wish.status.as_str() {
            "running" => is_running,
            "ended" => !is_running && end.is_some_and(stormlog_analysis::timeline::End::is_normal),
            "failed" => {
                let bad = |end| words::end(end, false).1 == "critical";
                !is_running && end.is_some_and(bad)
            }
            "findings" => self.has_findings(),
            _ => true,
        };
        fits && (wish.search.is_empty() || self.mentions(&wish.search.to_lowercase()))
    }

    /// Whether every word of the search text occurs in the row of the run.
    fn mentions(&self, search: &str) -> bool {
        let entry = &self.entry;
        let mut text = entry.name.to_lowercase();
        let mut add = |part: &str| {
            text.push(' ');
            text.push_str(&part.to_lowercase());
        };
        add(&entry.program.command.join(" "));
        add(entry.program.commit.as_deref().unwrap_or_default());
        for part in entry.sessions.iter().chain(&entry.hosts).chain(&entry.job) {
            add(&part.to_str_lossy());
        }
        if let Some(digest) = &self.digest {
            if let Some(verdict) = &digest.verdict {
                add(verdict.badge.word);
                add(&verdict.text);
            }
            add(&digest.end.clause());
        }
        search.split_whitespace().all(|word| text.contains(word))
    }

    fn row(&self, local: &LocalTime) -> Row {
        let entry = &self.entry;
        let started = entry
            .started_ns
            .or_else(|| Some(self.digest.as_ref()?.span_ns?.0));
        let length = match (entry.duration_ns(), self.digest.as_ref()) {
            (None, Some(digest)) => digest.span_ns.map(|(from, to)| to.saturating_sub(from)),
            (known, _) => known,
        };
        let commit = entry.program.commit.as_deref().unwrap_or_default();
        let mut row = Row {
            id: entry.id.clone(),
            name: if entry.program.shown_name().is_some() {
                let job = entry.job.as_ref().map(|job| job.to_str_lossy());
                run_name(&entry.program, job.as_deref(), started, local)
            } else {
                entry.name.clone()
            },
            folder: entry.name.clone(),
            end: if entry.is_running { "running" } else { "…" }.to_owned(),
            end_class: if entry.is_running { "live" } else { "" },
            started: started.map_or_else(String::new, time::moment),
            ago: started.map_or_else(String::new, |at| local.ago(at)),
            duration: length.map_or_else(String::new, human_duration),
            ranks: if entry.ranks == 0 {
                String::new()
            } else {
                entry.ranks.to_string()
            },
            spark: String::new(),
            memory: match entry.peak {
                Some(Peak::Exact(peak)) => size(Some(peak)),
                Some(Peak::AtMost(peak)) => format!("≤ {}", size(Some(peak))),
                None => "…".to_owned(),
            },
            verdict: if entry.paths.iter().any(|path| is_pack(path)) {
                "not read yet, because the run is a pack: open it to see its verdict".to_owned()
            } else {
                "not read yet".to_owned()
            },
            badge: Badge::default(),
            command: entry.program.command.join(" "),
            commit: commit.chars().take(10).collect(),
        };
        let Some(digest) = &self.digest else {
            return row;
        };
        if let Some(error) = &digest.error {
            row.verdict.clone_from(error);
            row.badge.class = "critical";
            row.memory.clear();
            "cannot be read".clone_into(&mut row.end);
            return row;
        }
        let (end, class) = words::end(&digest.end, entry.is_running);
        (row.end, row.end_class) = (end, class);
        if digest.ranks > 0 {
            row.ranks = digest.ranks.to_string();
        }
        row.spark = sparkline(digest);
        row.memory = match digest.limit {
            Some(limit) => format!("{} of {}", size(digest.peak), size(Some(limit))),
            None => size(digest.peak),
        };
        if let Some(verdict) = &digest.verdict {
            row.verdict.clone_from(&verdict.text);
            row.badge = verdict.badge;
        }
        row
    }
}

/// Serves the page with the list of runs, or only the HTML of its rows, with which a script updates
/// an open page.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let wish = Wish::of(pairs);
    let after = Arc::clone(&app);
    let made = reading(move || {
        let listing = app.runs.at_once(FIRST_LIST);
        let rows = rows(&app, &listing, &wish);
        if wish.rows_only {
            return rendered(&rows);
        }
        let roots = app.runs.roots.iter();
        rendered(&Page {
            wish,
            rows,
            statuses: &STATUSES,
            sorts: &SORTS,
            roots: roots.map(|root| root.display().to_string()).collect(),
        })
    });
    let answer = made.await.unwrap_or_else(IntoResponse::into_response);
    // The list of runs may be the result of an older search, so the folders are searched again for
    // the next request.
    tokio::task::spawn_blocking(move || after.runs.look());
    answer
}

fn rows(app: &App, listing: &Listing, wish: &Wish) -> Rows {
    let mut known: Vec<Known> = listing
        .runs
        .iter()
        .map(|entry| Known {
            entry: Arc::clone(entry),
            digest: app.digests.get(&entry.id),
        })
        .collect();
    let (all, running) = (
        known.len(),
        listing.runs.iter().filter(|run| run.is_running).count(),
    );
    known.retain(|one| one.is_accepted(wish));
    let peak = |one: &Known| one.digest.as_ref().and_then(|digest| digest.peak);
    match wish.sort.as_str() {
        "name" => known.sort_by(|a, b| a.entry.name.cmp(&b.entry.name)),
        "duration" => known.sort_by_key(|one| Reverse(one.entry.duration_ns())),
        "peak" => known.sort_by_key(|one| Reverse(peak(one))),
        "verdict" => known.sort_by_key(|one| Reverse(one.level())),
        _ => {}
    }
    let local = LocalTime::of_this_machine(app.machine.now_ns());
    let found = known.len();
    let pages = found.div_ceil(ROWS).max(1);
    let page = wish.page.min(pages - 1);
    let shown = &known[page * ROWS..found.min((page + 1) * ROWS)];
    // Digests of the shown runs are requested first. If the filter or the order of the list depends
    // on digests, the digests of all other runs are requested too.
    let is_missing = |run: &&Arc<Entry>| app.digests.get(&run.id).is_none();
    let mut wanted: Vec<&Arc<Entry>> = shown.iter().map(|one| &one.entry).collect();
    if needs_all(wish) {
        wanted.extend(listing.runs.iter().filter(is_missing));
    }
    app.digests.want(&wanted);
    Rows {
        shown: shown.iter().map(|one| one.row(&local)).collect(),
        found,
        all,
        running,
        page: page + 1,
        pages,
        warnings: listing.warnings.clone(),
        is_looking: !listing.is_complete,
        query: query(wish),
    }
}

/// Whether the filter or the order of the list depends on the digest of every run.
fn needs_all(wish: &Wish) -> bool {
    let by_digest = ["failed", "ended", "findings"].contains(&wish.status.as_str());
    by_digest || ["peak", "verdict"].contains(&wish.sort.as_str())
}

/// Builds the query string for the URL of a list with the same search, filter and order, to which a
/// page number can be appended.
fn query(wish: &Wish) -> String {
    let pairs = [
        ("q", &wish.search),
        ("status", &wish.status),
        ("sort", &wish.sort),
    ];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = pairs.map(|(key, value)| format!("{key}={}&", super::escaped(value)));
    pairs.collect()
}
