//! Tests that all front ends give the same verdict on every recording in the fixtures: the last line of
//! `stormlog run`, `analyze`, the list of `serve`, the page of the run, the terminal UI, issues, alerts
//! and gates.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use stormlog_analysis::detect::{Finding, Level};
use stormlog_export::alert::Subject;
use stormlog_export::{Alert, AlertFormat};

use super::equal_numbers::{document, exit_of, on_screen, page};
use super::same_runs::{request, serve};
use crate::Exit;

/// The folders of `fixtures` with one recording per subfolder.
const FOLDERS: [&str; 3] = ["causes", "recordings", "runs"];
/// What the list of `serve` shows of a run that was not analyzed yet.
const NOT_READ: &str = "not read yet";

/// The verdict of `analyze --format json` on a recording with one run.
struct Reported {
    path: PathBuf,
    run_id: Option<String>,
    /// The verdict with the end of the run.
    headline: String,
    level: Option<Level>,
    findings: Vec<Value>,
}

fn reported(path: &Path) -> Option<Reported> {
    let text = path.to_str().expect("a name");
    let analysis = document(&["analyze", "--skip-damaged", "--format", "json", text])?;
    let [run] = analysis["runs"].as_array()?.as_slice() else {
        return None;
    };
    let level = analysis["verdict"]["level"].as_str();
    let known = [Level::Problem, Level::Likely, Level::Note];
    Some(Reported {
        path: path.to_path_buf(),
        // Recordings of other commands have no run id of their own.
        run_id: run["run_id"]
            .as_str()
            .filter(|_| run["program"].is_string())
            .map(str::to_owned),
        headline: run["headline"].as_str()?.to_owned(),
        level: level.and_then(|word| known.into_iter().find(|one| one.as_str() == word)),
        findings: analysis["findings"].as_array()?.clone(),
    })
}

fn recordings() -> Vec<Reported> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut paths: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|folder| fixtures.join(folder).read_dir().expect("fixtures"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| reported(path)).collect()
}

#[test]
fn every_front_end_gives_the_same_verdict() {
    let recordings = recordings();
    assert!(recordings.len() >= 100, "{}", recordings.len());
    let (server, address) = serve();
    for one in &recordings {
        let name = one.path.display().to_string();
        let screen = on_screen(&one.path);
        let diagnosis = &screen.shown().expect("a run").diagnosis;
        assert_eq!(diagnosis.headline(), one.headline, "{name}: the screen");
        assert_eq!(diagnosis.verdict().level, one.level, "{name}: its level");
        // Of a damaged recording nothing may be left to draw.
        if let Some(spec) = page(&name) {
            assert_eq!(
                spec["verdict"][1],
                one.headline.as_str(),
                "{name}: the page"
            );
        }

        let gate = |kinds: &str| {
            let options = ["--skip-damaged", "--accept-damage", "--fail-on", kinds];
            exit_of(&[&["analyze", &name], &options[..]].concat()) == Exit::Risk
        };
        let is_likely = one.level > Some(Level::Note);
        assert_eq!(gate("any"), is_likely, "{name}: the gate");
        assert_eq!(
            gate("note"),
            one.level.is_some(),
            "{name}: the gate of notes"
        );

        let findings = diagnosis.findings();
        let Some(leading) = findings.first() else {
            assert_eq!(one.findings.len(), 0, "{name}");
            continue;
        };
        let begins = one.headline.starts_with(&leading.headline);
        assert!(
            begins,
            "{name}: {} is not {}",
            leading.headline, one.headline
        );
        alert_agrees(&name, leading);
        if let Some(run_id) = &one.run_id {
            let last_line = crate::cli::verdict_of_run(&one.path, run_id);
            let verdict = diagnosis.verdict().verdict;
            assert_eq!(last_line, Ok(verdict), "{name}: the last line of run");
            issue_agrees(&name, leading);
            list_agrees(&name, address, leading);
        }
    }
    drop(server);
}

fn alert_agrees(name: &str, leading: &Finding) {
    let alert = Alert {
        subject: &Subject::default(),
        finding: leading,
        at_ns: 0,
    };
    let sent: Value = serde_json::from_slice(&alert.render(AlertFormat::Json)).expect("JSON");
    assert_eq!(sent["text"], leading.headline.as_str(), "{name}: the alert");
}

fn issue_agrees(name: &str, leading: &Finding) {
    let issues = document(&["issues", "list", name, "--json"]).expect("issues");
    let issues = issues.as_array().expect("a list");
    let mut same = issues
        .iter()
        .filter(|issue| issue["kind"] == leading.kind.as_str());
    let issue = same.next().unwrap_or_else(|| panic!("{name}: no issue"));
    assert_eq!(
        issue["title"],
        leading.title().as_str(),
        "{name}: the issue"
    );
    assert_eq!(
        issue["severity"],
        leading.severity.as_str(),
        "{name}: its level"
    );
}

fn list_agrees(name: &str, address: std::net::SocketAddr, leading: &Finding) {
    let begun = Instant::now();
    let row = loop {
        let answer = request(address, &format!("/?q={}", leading.session_id));
        // The list also has the same recording in other folders of the fixtures.
        let folder = Path::new(name)
            .file_name()
            .expect("a name")
            .to_string_lossy();
        let rows = answer.split("<tr data-run=").skip(1);
        let row = rows
            .filter(|row| row.contains(&*folder))
            .last()
            .map(str::to_owned);
        match row {
            Some(row) if !row.contains(NOT_READ) => break row,
            _ if begun.elapsed() > Duration::from_mins(3) => panic!("{name}: {answer}"),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let row = row
        .replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#39;", "'");
    let badge = format!(">{}</span>", leading.level().as_str());
    assert!(row.contains(&badge), "{name}: badge in {row}");
    assert!(
        row.contains(leading.line_without_label()),
        "{name}: verdict in {row}"
    );
}
