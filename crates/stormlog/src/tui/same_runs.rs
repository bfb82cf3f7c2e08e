//! Tests that all front ends name the same runs: `query runs`, `analyze`, the list of `serve` and the
//! list of recent runs in the terminal UI.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use stormlog_analysis::query::{Process, Surroundings};
use stormlog_analysis::timeline::run_id_of;
use stormlog_analysis::{LoadOptions, gather};
use stormlog_serve::{Binding, Machine, Server, Token, router};

use super::equal_numbers::document;
use super::recent;

/// The folders of `fixtures` with one recording per subfolder.
const FOLDERS: [&str; 3] = ["recordings", "runs", "causes"];
/// What the list of `serve` shows until all folders were searched.
const LOOKING: &str = "looking through the folders";

/// The sessions of each run, by run id.
type Runs = BTreeMap<String, BTreeSet<String>>;

fn folders() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    FOLDERS.map(|name| fixtures.join(name)).to_vec()
}

/// The runs of a recording whose sessions have a run id, as their first events say.
fn recorded(path: &Path) -> Runs {
    let mut runs = Runs::new();
    let Ok(gathered) = gather(&[path.to_path_buf()], &LoadOptions::skipping()) else {
        return runs;
    };
    for session in gathered.loaded.iter().flat_map(|one| &one.sessions) {
        if let Some(id) = run_id_of(session) {
            let sessions = runs.entry(id.to_string()).or_default();
            sessions.insert(session.summary.session_id.to_string());
        }
    }
    runs
}

/// The runs in a list of JSON objects that have some of the given sessions.
fn runs_in(list: &Value, sessions_key: &str, wanted: &Runs) -> Runs {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let runs = list.as_array().expect("a list").iter().map(|run| {
        let sessions = run[sessions_key].as_array().expect("a list").iter();
        (
            text(&run["run_id"]),
            sessions.map(text).collect::<BTreeSet<_>>(),
        )
    });
    let is_wanted = |sessions: &BTreeSet<String>| {
        let mut wanted = wanted.values().flatten();
        wanted.any(|session| sessions.contains(session))
    };
    runs.filter(|(_, sessions)| is_wanted(sessions)).collect()
}

/// A machine that knows no process.
struct Still;

impl Machine for Still {
    fn now_ns(&self) -> i64 {
        1_900_000_000_000_000_000
    }

    fn user(&self) -> String {
        "ana".to_owned()
    }

    fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>)) {
        ask(&Surroundings {
            now_ns: self.now_ns(),
            host: "here",
            reader: None,
            process: &|_| Process::Unknown,
        });
    }
}

pub(super) fn serve() -> (Server, SocketAddr) {
    let binding = Binding::bind("127.0.0.1:0", Token::random()).expect("an address");
    let address = binding.address();
    let pages = router(folders(), Arc::new(Still), binding.stopping()).expect("threads");
    let server = binding.serve(pages).expect("threads");
    (server, address)
}

/// The answer of the server to a request for a page.
pub(super) fn request(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("an answer");
    page
}

/// The list of `serve`, reduced to the runs that a search finds, once the folders were searched.
fn listed(address: SocketAddr, search: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let page = request(address, &format!("/?q={search}"));
        if !page.contains(LOOKING) {
            let links = page.split("<a href=\"/run/").skip(1);
            return links
                .map(|link| link.split('"').next().unwrap_or_default().to_owned())
                .collect();
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "{page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in from.read_dir().expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("a copy");
        }
    }
}

/// The start and the number of ranks of each run in the terminal UI's list of recent runs, when the
/// recording is the only one in the folder.
fn recent_runs(recording: &Path) -> BTreeSet<(i64, usize)> {
    let folder = tempfile::tempdir().expect("a folder");
    copy(recording, &folder.path().join(recent::FOLDER).join("run"));
    let runs = recent::runs(folder.path()).into_iter();
    runs.filter_map(|run| Some((run.started_ns?, run.ranks)))
        .collect()
}

/// Compares the runs of a recording; returns how many have a run id.
fn compare(path: &Path, server: SocketAddr) -> usize {
    let expected = recorded(path);
    if expected.is_empty() {
        return 0;
    }
    let name = path.display().to_string();
    let text = path.to_str().expect("a name");
    let queried = document(&["query", "runs", text, "--json"]).expect("rows");
    assert_eq!(
        runs_in(&queried, "sessions", &expected),
        expected,
        "{name}: query runs"
    );
    let analysis = document(&["analyze", text, "--format", "json", "--skip-damaged"]);
    let analyzed = &analysis.expect("a report")["runs"];
    assert_eq!(
        runs_in(analyzed, "session_ids", &expected),
        expected,
        "{name}: analyze"
    );

    let mut links = BTreeSet::new();
    for sessions in expected.values() {
        let found: BTreeSet<Vec<String>> = sessions
            .iter()
            .map(|session| listed(server, session))
            .collect();
        assert_eq!(
            found.len(),
            1,
            "{name}: one run for all sessions: {found:?}"
        );
        assert!(
            found.iter().all(|runs| runs.len() == 1),
            "{name}: serve: {found:?}"
        );
        links.extend(found);
    }
    assert_eq!(links.len(), expected.len(), "{name}: serve");

    let recent = recent_runs(path);
    for run in queried.as_array().expect("a list") {
        if expected.contains_key(run["run_id"].as_str().expect("an id")) {
            let ranks = run["ranks"].as_array().expect("ranks").len();
            let run = (run["started_at_ns"].as_i64().expect("a start"), ranks);
            assert!(recent.contains(&run), "{name}: {run:?} in {recent:?}");
        }
    }
    expected.len()
}

#[test]
fn every_front_end_names_the_same_runs() {
    let (server, address) = serve();
    let entries = folders().into_iter().flat_map(|folder| {
        let entries = folder.read_dir().expect("fixtures").flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    });
    let compared: usize = entries
        .filter(|path| path.is_dir())
        .map(|path| compare(&path, address))
        .sum();
    server.stop();
    assert!(compared >= 80, "only {compared} runs were compared");
}
