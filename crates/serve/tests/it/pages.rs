//! The pages over real recordings: what is served, what is not, and that texts stay texts.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stormlog_analysis::query::{Process, Surroundings};
use stormlog_serve::{Binding, Machine, Server, Token, router};
use tempfile::TempDir;

use crate::client::{Answer, get, send};

/// A machine at a fixed time that knows nothing of processes.
struct Still;

impl Machine for Still {
    fn now_ns(&self) -> i64 {
        1_800_000_000_000_000_000
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

/// The same machine; a look through the folders waits until the test lets it go on.
struct Slow(Arc<Mutex<()>>);

impl Machine for Slow {
    fn now_ns(&self) -> i64 {
        Still.now_ns()
    }

    fn user(&self) -> String {
        Still.user()
    }

    fn surroundings(&self, ask: &mut dyn FnMut(&Surroundings<'_>)) {
        let _allowed = self.0.lock().expect("not poisoned");
        Still.surroundings(ask);
    }
}

struct Served {
    server: Server,
    at: SocketAddr,
    token: String,
    folder: TempDir,
}

/// What a list shows during the first look.
const LOOKING: &str = "looking through the folders";

fn fixture(name: &str) -> PathBuf {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    runs.join(name)
}

/// Copies the files of a fixture, without its README.
fn copy(name: &str, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(fixture(name))
        .expect("a fixture")
        .flatten()
    {
        let from = entry.path();
        if from.is_file() && from.extension().is_some_and(|end| end != "md") {
            std::fs::copy(&from, to.join(entry.file_name())).expect("copied");
        }
    }
}

fn serve(prepare: impl FnOnce(&Path)) -> Served {
    serve_on(Arc::new(Still), prepare)
}

fn serve_on(machine: Arc<dyn Machine>, prepare: impl FnOnce(&Path)) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = folder.path().join("runs");
    std::fs::create_dir(&runs).expect("made");
    prepare(&runs);
    let token = Token::random();
    let secret = token.secret().to_owned();
    let binding = Binding::bind("127.0.0.1:0", token).expect("an address");
    let at = binding.address();
    let pages = router(vec![runs], machine, binding.stopping()).expect("threads");
    Served {
        server: binding.serve(pages).expect("threads"),
        at,
        token: secret,
        folder,
    }
}

impl Served {
    /// The list, once the folders were looked through.
    fn list(&self) -> String {
        let begun = Instant::now();
        loop {
            let list = get(self.at, "/").body;
            if !list.contains(LOOKING) {
                return list;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{list}");
        }
    }

    /// The ids and names of the listed runs.
    fn runs(&self) -> Vec<(String, String)> {
        let list = self.list();
        let links = list.split("<a href=\"/run/").skip(1);
        let run = |link: &str| {
            let (id, rest) = link.split_once("\">").expect("a link");
            let (name, _) = rest.split_once("</a>").expect("a name");
            (id.to_owned(), name.to_owned())
        };
        links.map(run).collect()
    }

    fn id_of(&self, name: &str) -> String {
        let runs = self.runs();
        let found = runs.iter().find(|(_, known)| known == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {runs:?}"))
            .0
            .clone()
    }

    fn change(&self, body: &str) -> Answer {
        let own = format!("http://{}", self.at);
        let cookie = format!("stormlog-{}={}", self.at.port(), self.token);
        let headers = [
            ("Origin", own.as_str()),
            ("Cookie", &cookie),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        send(self.at, "POST /issues/decide", &headers, body)
    }
}

#[test]
fn runs_are_listed_read_and_compared() {
    let served = serve(|runs| {
        copy("h200_clean_train", &runs.join("clean"));
        copy("h200_oom", &runs.join("oom"));
        copy("two_ranks", &runs.join("ranks"));
    });
    let mut names: Vec<String> = served.runs().into_iter().map(|(_, name)| name).collect();
    names.sort();
    assert_eq!(
        names,
        ["clean/events.jsonl.gz", "oom/events.jsonl.gz", "ranks"]
    );
    let (clean, oom) = (
        served.id_of("clean/events.jsonl.gz"),
        served.id_of("oom/events.jsonl.gz"),
    );
    assert_eq!(get(served.at, &format!("/run/{oom}")).status, 200);
    let data = get(served.at, &format!("/run/{oom}/data"));
    assert!(data.body.contains("\"panels\"") && data.body.contains("finding critical"));
    // What was read is on the list from now on.
    assert!(get(served.at, "/").body.contains("class=\"spark\""));
    let ranks = get(served.at, &format!("/run/{}/data", served.id_of("ranks")));
    assert!(ranks.body.contains("from median"), "{}", ranks.body);
    let both = get(served.at, &format!("/compare/data?run={clean}&run={oom}"));
    assert!(both.body.contains("\\\"band\\\"") || both.body.contains("\"band\":true"));
    assert!(both.body.contains("max-peak-growth"), "{}", both.body);
    // What is new stands above the chart.
    let (_, head) = both.body.split_once("\"head\":").expect("a verdict");
    let (head, _) = head.split_once("\"sections\":").expect("the rest");
    assert!(head.contains("<strong>new</strong>: oom_risk"), "{head}");
    let page = get(served.at, &format!("/compare?run={clean}&run={oom}"));
    let place = |part: &str| page.body.find(part).expect("it is on the page");
    assert!(place("id=\"head\"") < place("id=\"app\""));
    let bad = get(
        served.at,
        &format!("/compare/data?run={clean}&run={oom}&peak=much"),
    );
    assert!(bad.body.contains("\"error\""), "{}", bad.body);
    assert_eq!(get(served.at, "/compare?run=1").status, 400);
    let picture = get(served.at, &format!("/run/{oom}/timeline.svg"));
    assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    served.server.stop();
}

#[test]
fn lists_are_searched_filtered_and_sorted() {
    let served = serve(|runs| {
        copy("two_ranks", &runs.join("first"));
        copy("h200_clean_train", &runs.join("second"));
    });
    let rows = |query: &str| {
        let body = get(served.at, &format!("/?part=rows&{query}")).body;
        body.matches("<tr data-run").count()
    };
    served.list();
    assert_eq!(rows(""), 2);
    assert_eq!(rows("q=SECOND"), 1);
    assert_eq!(rows("q=second+first"), 0);
    assert_eq!(rows("status=running"), 0);
    assert_eq!(rows("page=99"), 2);
    assert!(
        get(served.at, "/?q=%22%3E%3Cscript%3E")
            .body
            .contains("value=\"&#34;&#62;&#60;script&#62;\"")
    );
    served.server.stop();
}

#[test]
fn nothing_outside_the_folders_is_served() {
    let served = serve(|runs| {
        copy("two_ranks", &runs.join("inside"));
        let outside = runs.parent().expect("a parent").join("outside");
        copy("h200_oom", &outside);
        std::os::unix::fs::symlink(&outside, runs.join("link")).expect("a link");
        std::os::unix::fs::symlink(
            outside.join("events.jsonl.gz"),
            runs.join("events.jsonl.gz"),
        )
        .expect("a link");
    });
    let list = served.list();
    assert_eq!(served.runs().len(), 1, "{list}");
    assert!(
        list.contains("leads out of") || list.contains("link"),
        "{list}"
    );
    let inside = served.id_of("inside");
    for path in [
        "/../../etc/passwd",
        "/run/../../etc/passwd",
        "/run/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/run/%2e%2e/data",
        "/assets/../Cargo.toml",
        "/assets/%2e%2e%2fCargo.toml",
        "/run/0000000000000000",
        &format!("/run/{inside}/snapshot/0"),
        &format!("/run/{inside}/snapshot/..%2f..%2fetc%2fpasswd"),
        &format!("/run/{inside}/manifest.json"),
        "//evil.example/",
    ] {
        let answer = get(served.at, path);
        assert!(
            [400, 404].contains(&answer.status),
            "{path}: {}",
            answer.status
        );
        assert!(!answer.body.contains("root:"), "{path}");
    }
    served.server.stop();
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "<script>alert(1)<&\"'>";
    let served = serve(|runs| copy("two_ranks", &runs.join(hostile)));
    let (id, name) = served.runs().remove(0);
    assert_eq!(name, "&#60;script&#62;alert(1)&#60;&#38;&#34;&#39;&#62;");
    for path in [
        "/".to_owned(),
        format!("/run/{id}"),
        format!("/compare?run={id}&run={id}"),
        "/issues".to_owned(),
    ] {
        let body = get(served.at, &path).body;
        assert!(!body.contains("<script>alert"), "{path}");
    }
    served.server.stop();
}

#[test]
fn an_issue_is_resolved_in_the_file_beside_the_runs() {
    let served = serve(|runs| copy("h200_oom", &runs.join("oom")));
    let page = get(served.at, "/issues").body;
    let (_, rest) = page.split_once("data-issue=\"").expect("an issue");
    let (id, _) = rest.split_once('"').expect("its id");
    let states = served.folder.path().join("runs/issues.json");
    let refused = send(
        served.at,
        "POST /issues/decide",
        &[],
        &format!("folder=0&id={id}&state=resolved"),
    );
    assert_eq!((refused.status, states.exists()), (403, false));
    assert_eq!(
        served
            .change(&format!("folder=0&id={id}&state=gone"))
            .status,
        400
    );
    assert_eq!(served.change("folder=9&id=x&state=resolved").status, 409);
    let made = served.change(&format!(
        "folder=0&id={id}&state=resolved&reason=smaller+batch"
    ));
    assert_eq!(made.status, 303, "{}", made.body);
    let stored = std::fs::read_to_string(states).expect("states");
    assert!(
        stored.contains("resolved") && stored.contains("smaller batch") && stored.contains("ana")
    );
    assert!(
        get(served.at, "/issues")
            .body
            .contains("ana: smaller batch")
    );
    served.server.stop();
}

#[test]
fn a_stream_reports_that_a_file_grew() {
    let events = "runs/job/events.jsonl";
    let served = serve(|runs| {
        std::fs::create_dir(runs.join("job")).expect("made");
        let segment = fixture("two_ranks/segment-000001.jsonl");
        std::fs::copy(segment, runs.join("job/events.jsonl")).expect("copied");
    });
    let id = served.id_of("job/events.jsonl");
    let mut stream = TcpStream::connect(served.at).expect("connected");
    let request = format!(
        "GET /run/{id}/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        served.at
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .expect("a time-out");
    let mut seen = String::new();
    let mut until = |count: usize| {
        let begun = Instant::now();
        while seen.matches("data: ").count() < count {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).expect("events");
            assert!(
                read > 0 && begun.elapsed() < Duration::from_mins(1),
                "{seen}"
            );
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    until(1);
    let segment = served.folder.path().join(events);
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(segment)
        .expect("a segment");
    file.write_all(b"\n").expect("written");
    until(2);
    served.server.stop();
}

#[test]
fn the_first_page_does_not_wait_for_the_first_look() {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().expect("not poisoned");
    let machine = Arc::new(Slow(Arc::clone(&gate)));
    let served = serve_on(machine, |runs| copy("two_ranks", &runs.join("ranks")));
    let list = get(served.at, "/").body;
    assert!(list.contains(LOOKING) && !list.contains("<tr data-run"));
    // A page about a run waits a moment, then says why nothing is there.
    let unknown = get(served.at, "/run/0000000000000000");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("reload in a moment"));
    drop(closed);
    assert_eq!(served.runs().len(), 1);
    served.server.stop();
}

#[test]
fn the_peak_of_a_run_is_its_own_share_of_a_shared_device() {
    let served = serve(|runs| {
        std::fs::create_dir(runs.join("shared")).expect("made");
        let rank = fixture("h200_shared_gpu/rank0.jsonl.gz");
        std::fs::copy(rank, runs.join("shared/rank0.jsonl.gz")).expect("copied");
    });
    let (id, _) = served.runs().remove(0);
    get(served.at, &format!("/run/{id}/data"));
    // The other rank fills the device to 11 GiB.
    let list = served.list();
    assert!(list.contains(">842 MiB of "), "{list}");
    served.server.stop();
}

#[test]
fn packs_are_listed_and_read_when_they_are_opened() {
    let served = serve(|runs| {
        std::fs::write(runs.join("sent.stormlog"), "no pack").expect("written");
    });
    let (id, name) = served.runs().remove(0);
    assert_eq!(name, "sent.stormlog");
    assert!(served.list().contains("the run is a pack: open it"));
    let opened = get(served.at, &format!("/run/{id}/data")).body;
    assert!(opened.contains("not a file that"), "{opened}");
    served.server.stop();
}
