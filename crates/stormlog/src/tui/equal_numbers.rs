//! Tests that all front ends show the same numbers for every run in the fixtures: `analyze --format
//! json`, `show --json`, the data of an HTML page, and the terminal UI.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::{Value, json};
use stormlog_report::{MarkKind, Measure, UNKNOWN};

use super::effect::Effect;
use super::message::Message;
use super::run::OpenedRun;
use super::worker;
use crate::{Console, Dialect, Exit};

/// The number of threads over which the fixtures are distributed; each thread compares one run at a
/// time.
const THREADS: usize = 4;
/// The largest numbers of device panels and host memory lines on an HTML page.
const MOST_DEVICES: usize = 4;
const MOST_HOSTS: usize = 8;

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut all: Vec<PathBuf> = ["runs", "recordings"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).expect("fixtures"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    all
}

/// What a `stormlog` command with these arguments prints on standard output; `None` if it fails.
fn output(arguments: &[&str]) -> Option<Vec<u8>> {
    let (exit, out) = run(arguments);
    (exit == Exit::Fine).then_some(out)
}

pub(super) fn exit_of(arguments: &[&str]) -> Exit {
    run(arguments).0
}

fn run(arguments: &[&str]) -> (Exit, Vec<u8>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        out_is_terminal: false,
        err_is_terminal: false,
        services: None,
        decided: None,
    };
    let arguments = arguments.iter().map(OsString::from);
    let exit = crate::run(Dialect::Stormlog, arguments, &mut console);
    (exit, out)
}

pub(super) fn document(arguments: &[&str]) -> Option<Value> {
    let out = output(arguments)?;
    Some(serde_json::from_slice(&out).expect("JSON"))
}

/// The data of the HTML page that `stormlog plot` writes for a run, which is JSON inside the page;
/// `None` if nothing can be drawn.
pub(super) fn page(path: &str) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    let file = file.to_str().expect("a name");
    output(&["plot", path, "-o", file])?;
    let html = std::fs::read_to_string(file).expect("a page");
    let (_, rest) = html.split_once("id=\"spec\">").expect("data");
    let (spec, _) = rest.split_once("</script>").expect("an end");
    Some(serde_json::from_str(spec).expect("JSON"))
}

/// The run that the terminal UI shows after it has opened a path.
pub(super) fn on_screen(path: &Path) -> OpenedRun {
    let (replies, inbox) = channel();
    let requests = worker::start(replies);
    let open = Effect::Open(vec![path.to_path_buf()]);
    requests.send(open).expect("a worker");
    loop {
        match inbox
            .recv_timeout(Duration::from_mins(5))
            .expect("an answer")
        {
            Message::Run(report, story) => return OpenedRun::new(report, 0, *story),
            Message::Failed(reason) => panic!("{}: {reason}", path.display()),
            _ => {}
        }
    }
}

/// The numbers of samples and sampling gaps of a resource (a device or host memory), and its peaks
/// of allocated, reserved and used memory in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    samples: i64,
    gaps: i64,
    peaks: [Option<i64>; 3],
}

/// The rank, pid and device of a resource; a resource without a device is host memory.
type Key = (i64, i64, Option<i64>);

fn of_report(resources: &Value) -> BTreeMap<Key, Numbers> {
    let one = |entry: &Value| {
        let number = |name: &str| entry[name].as_i64();
        let key = (
            number("rank").expect("a rank"),
            number("pid").expect("a process"),
            number("device_id"),
        );
        let numbers = Numbers {
            samples: number("samples").expect("samples"),
            gaps: number("gaps").expect("gaps"),
            peaks: ["allocated", "reserved", "used"]
                .map(|measure| number(&format!("peak_{measure}_bytes"))),
        };
        (key, numbers)
    };
    resources
        .as_array()
        .expect("a list")
        .iter()
        .map(one)
        .collect()
}

/// The numbers on an HTML page. On an HTML page, measures with equal values share one line, whose
/// name is, for example, `allocated = reserved`.
fn of_page(spec: &Value) -> BTreeMap<Key, Numbers> {
    let mut all: BTreeMap<Key, Numbers> = BTreeMap::new();
    for track in spec["tracks"].as_array().expect("tracks") {
        if track["derived"] == true {
            continue;
        }
        let device = track["device"].as_i64();
        let key = (
            track["rank"].as_i64().expect("a rank"),
            track["pid"].as_i64().expect("a process"),
            device,
        );
        let numbers = all.entry(key).or_default();
        numbers.samples += track["count"].as_i64().expect("samples");
        numbers.gaps += track["gaps"].as_i64().expect("gaps");
        for series in track["series"].as_array().expect("series") {
            let name = series["name"].as_str().expect("a name");
            let peak = series["peak"].as_i64();
            let measures: [&str; 3] = match device {
                Some(_) => ["allocated", "reserved", "device used"],
                // An HTML page shows host memory as one number, so host memory has no reserved and
                // used values on the page.
                None => ["host memory", "", ""],
            };
            for (of_measure, measure) in numbers.peaks.iter_mut().zip(measures) {
                // If the run has several ranks, the line of host memory has the name of its rank.
                let is_named = name.split(" = ").any(|part| part == measure);
                let is_rank = measure == "host memory" && name.starts_with("rank ");
                if is_named || is_rank {
                    *of_measure = (*of_measure).max(peak);
                }
            }
        }
    }
    all
}

/// The number of samples of each resource in the terminal UI. The other fields of [`Numbers`] are
/// not set.
fn of_screen(run: &OpenedRun) -> BTreeMap<Key, Numbers> {
    let mut all: BTreeMap<Key, Numbers> = BTreeMap::new();
    for track in run.story.tracks() {
        let device = (track.device_id >= 0).then_some(track.device_id);
        let numbers = all.entry((track.rank, track.pid, device)).or_default();
        numbers.samples += i64::try_from(track.times().len()).expect("a count");
    }
    all
}

/// The numbers of each finding that are compared: kind, severity, rank, onset and magnitude.
type Found = Vec<(String, String, Option<u64>, Option<i64>, Option<i64>)>;

fn compare(path: &Path) -> bool {
    let name = path.display().to_string();
    let text = path.to_str().expect("a name");
    let Some(analysis) = document(&["analyze", text, "--format", "json"]) else {
        return false;
    };
    let shown = document(&["show", text, "--json"]).expect("what analyze reads, show reads");
    let runs = analysis["runs"].as_array().expect("runs");
    assert_eq!(
        shown["runs"].as_array().map(Vec::len),
        Some(runs.len()),
        "{name}"
    );
    for (ours, theirs) in runs.iter().zip(shown["runs"].as_array().expect("runs")) {
        for key in ["run_id", "program", "session_ids", "end", "resources"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
    }
    let Some(run) = runs.first() else {
        return false;
    };
    let resources = of_report(&run["resources"]);
    if resources.is_empty() {
        return false;
    }

    let spec = page(text).expect("a page");
    page_agrees(&name, run, &resources, &spec);
    let screen = on_screen(path);
    screen_agrees(&name, run, &resources, &screen);
    findings_agree(&name, &analysis, &spec, &screen);
    true
}

fn page_agrees(name: &str, run: &Value, resources: &BTreeMap<Key, Numbers>, spec: &Value) {
    let paged = of_page(spec);
    let devices = resources.keys().filter(|key| key.2.is_some()).count();
    let hosts = resources.len() - devices;
    if devices <= MOST_DEVICES && hosts <= MOST_HOSTS {
        let keys = |all: &BTreeMap<Key, Numbers>| all.keys().copied().collect::<Vec<_>>();
        assert_eq!(
            keys(&paged),
            keys(resources),
            "{name}: the page's resources"
        );
        let first = |entry: &Value| entry["first_timestamp_ns"].as_i64();
        let starts = run["resources"].as_array().expect("a list").iter();
        let zero = spec["zero_ms"].as_i64().expect("a time") * 1_000_000
            + spec["zero_ns_rest"].as_i64().expect("a time");
        assert_eq!(Some(zero), starts.filter_map(first).min(), "{name}: start");
    }
    for (key, on_page) in &paged {
        let mut expected = Numbers {
            ..*resources.get(key).expect("a resource")
        };
        if key.2.is_none() {
            expected.peaks = [expected.peaks[0], None, None];
        }
        assert_eq!(*on_page, expected, "{name}: {key:?} on the page");
    }
    assert_eq!(
        spec["verdict"][1], run["headline"],
        "{name}: verdict of the page"
    );
}

fn screen_agrees(name: &str, run: &Value, resources: &BTreeMap<Key, Numbers>, screen: &OpenedRun) {
    let report = screen.shown().expect("a run");
    assert_eq!(
        report.diagnosis.headline(),
        run["headline"],
        "{name}: verdict of the screen"
    );
    for (key, on_screen) in of_screen(screen) {
        assert_eq!(
            on_screen.samples, resources[&key].samples,
            "{name}: samples of {key:?} on the screen"
        );
    }
    let ranks = run["ranks"].as_array().expect("ranks");
    // The terminal UI lists ranks with findings first, so its lines are sorted by rank before they
    // are compared.
    let mut on_screen: Vec<_> = screen.ranks.iter().collect();
    on_screen.sort_by_key(|line| line.rank);
    let lines: Vec<Value> = on_screen
        .iter()
        .filter_map(|line| line.coverage.as_ref())
        .map(|one| {
            json!([
                one.rank,
                one.samples,
                one.gaps,
                one.longest_gap_ns,
                one.first_ns,
                one.last_ns,
                one.peaks.allocated,
                one.peaks.reserved,
                one.peaks.used,
                one.device_total_bytes,
            ])
        })
        .collect();
    let reported: Vec<Value> = ranks
        .iter()
        .map(|one| {
            let keys = [
                "rank",
                "samples",
                "gaps",
                "longest_gap_ns",
                "first_timestamp_ns",
                "last_timestamp_ns",
                "peak_allocated_bytes",
                "peak_reserved_bytes",
                "peak_used_bytes",
                "device_total_bytes",
            ];
            keys.iter().map(|key| one[*key].clone()).collect()
        })
        .collect();
    assert_eq!(lines, reported, "{name}: ranks on the screen");
    for line in &screen.ranks {
        let tracks = screen
            .story
            .tracks()
            .iter()
            .filter(|track| track.rank == line.rank);
        let values = tracks.flat_map(|track| track.values(Measure::Hidden));
        let hidden = values.copied().filter(|value| *value != UNKNOWN).max();
        assert_eq!(
            line.hidden_peak, hidden,
            "{name}: hidden memory of rank {}",
            line.rank
        );
    }
}

fn findings_agree(name: &str, analysis: &Value, spec: &Value, screen: &OpenedRun) {
    let report = screen.shown().expect("a run");
    let sessions: Vec<String> = report
        .sessions
        .iter()
        .map(|one| one.session_id.to_string())
        .collect();
    let is_of_run = |finding: &&Value| {
        let session = finding["session_id"].as_str().expect("a session");
        sessions.iter().any(|one| one == session)
    };
    let reported = analysis["findings"].as_array().expect("findings").iter();
    let reported: Vec<&Value> = reported.filter(is_of_run).collect();
    let in_report: Found = reported
        .iter()
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().expect("a word").to_owned();
            let number = |key: &str| finding[key].as_i64();
            (
                text("kind"),
                text("severity"),
                finding["rank"].as_u64(),
                number("onset_ns"),
                number("magnitude_bytes"),
            )
        })
        .collect();
    let on_screen: Found = report
        .diagnosis
        .findings()
        .into_iter()
        .map(|one| {
            let (kind, severity) = (one.kind.to_string(), one.severity.to_string());
            (
                kind,
                severity,
                one.rank.map(u64::from),
                one.onset_ns,
                one.magnitude_bytes,
            )
        })
        .collect();
    let severity = |word: &str| word.to_lowercase();
    let in_report: Found = in_report
        .into_iter()
        .map(|one| (one.0, severity(&one.1), one.2, one.3, one.4))
        .collect();
    assert_eq!(in_report, on_screen, "{name}: findings on the screen");

    let is_finding = |kind: &str| ["finding", "suspect"].contains(&kind);
    let zero = spec["zero_ms"].as_i64().expect("a time") * 1_000_000
        + spec["zero_ns_rest"].as_i64().expect("a time");
    let marks = spec["marks"].as_array().expect("marks").iter();
    let mut on_page: Vec<(i64, Option<i64>, String)> = marks
        .filter(|mark| is_finding(mark["kind"].as_str().expect("a kind")))
        .map(|mark| {
            let at = mark["t"].as_i64().expect("a time") + zero;
            let sentence = mark["detail"].as_str().expect("a sentence").to_owned();
            (at, mark["rank"].as_i64(), sentence)
        })
        .collect();
    let marked = screen
        .marks
        .iter()
        .filter(|mark| matches!(mark.kind, MarkKind::Finding | MarkKind::Suspect));
    let mut expected: Vec<(i64, Option<i64>, String)> = marked
        .map(|mark| {
            (
                mark.time_ns,
                mark.rank,
                mark.detail.clone().expect("a sentence"),
            )
        })
        .collect();
    on_page.sort();
    expected.sort();
    assert_eq!(on_page, expected, "{name}: findings on the page");
    let with_onset = in_report.iter().filter(|one| one.3.is_some()).count();
    assert_eq!(
        on_page.len(),
        with_onset,
        "{name}: every finding with an onset is marked"
    );
}

#[test]
fn every_front_end_shows_the_same_numbers_of_every_fixture_run() {
    let fixtures = fixtures();
    // The runs are compared on threads outside the rayon pool. A comparison waits for the worker of
    // the terminal UI, and the worker itself needs threads of the pool.
    let compared: usize = std::thread::scope(|scope| {
        let fixtures = &fixtures;
        let part = move |first: usize| {
            let own = fixtures.iter().skip(first).step_by(THREADS);
            own.filter(|path| compare(path)).count()
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|first| scope.spawn(move || part(first)))
            .collect();
        let counts = threads.into_iter().map(|thread| match thread.join() {
            Ok(count) => count,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        counts.sum()
    });
    // Not all fixtures are compared, because some are invalid on purpose and some contain only
    // snapshots.
    assert!(compared >= 80, "only {compared} runs were compared");
}
