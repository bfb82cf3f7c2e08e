//! Every question gives the rows of `stormlog query` and `stormlog analyze` on the same recordings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use stormlog_analysis::analyze::{AnalyzeOptions, analyze};
use stormlog_analysis::issue::IssueFilter;
use stormlog_analysis::query::{GroupBy, Metric, OomBundle, OomFilter, SessionFilter, Store};
use stormlog_analysis::{LoadOptions, OnError, gather};
use stormlog_compat::correlate::{self, CorrelationFilter, Scope};
use stormlog_compat::hidden_memory_anomalies;
use stormlog_format::Map;
use stormlog_format::json::{Layout, Writer, map_of, parse};
use stormlog_lake_ask::{Asker, DiagnoseOptions};
use stormlog_lake_tables::Lake;

use crate::workers::Workers;

/// Recordings of different sessions.
const FIXTURES: [&str; 15] = [
    "issues/monday",
    "issues/tuesday",
    "issues/wednesday",
    "recordings/ddp_two_ranks",
    "recordings/fragmentation_oom",
    "recordings/losses_to_oom",
    "recordings/shared_kv_cache",
    "runs/h200_clean_eval_bumps",
    "runs/h200_hidden_drift",
    "runs/h200_oom",
    "runs/oom_bundle",
    "runs/two_ranks",
    "runs/v040_host_leak",
    "runs/v040_leak_to_oom",
    "runs/v040_rank_leak",
];

/// Recordings of one session, damaged or in other forms. A lake holds a session once, so each has one
/// of its own.
const FORMS: [&str; 5] = [
    "runs/broken_middle_line",
    "runs/diagnose_bundle",
    "runs/missing_segment",
    "runs/reference_csv/events.csv",
    "runs/torn_last_line",
];

pub(crate) fn fixture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures");
    root.canonicalize().unwrap().join(name)
}

/// Stores paths in a new lake.
pub(crate) fn ingested(paths: &[PathBuf]) -> tempfile::TempDir {
    let lake = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_stormlog-lake"))
        .arg("ingest")
        .args(paths)
        .arg("--to")
        .arg(lake.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    lake
}

pub(crate) async fn asker(lake: &Path) -> Asker {
    let lake = Lake::at(lake.to_str().unwrap()).unwrap();
    Asker::here(&lake).unwrap()
}

/// The askers that must agree: this process alone, and two workers.
pub(crate) async fn askers(lake: &Path) -> ([(&'static str, Asker); 2], Workers) {
    let workers = Workers::start(lake, 2);
    let alone = ("one process", asker(lake).await);
    let together = ("two workers", workers.asker(lake).await);
    ([alone, together], workers)
}

fn texts(rows: impl IntoIterator<Item = Map>) -> Vec<String> {
    let writer = Writer::new(Layout::Line).sorted();
    rows.into_iter()
        .map(|row| writer.map_to_string(&row))
        .collect()
}

/// Fails with the first rows that differ.
fn assert_same(question: &str, lake: &[String], files: &[String]) {
    for (index, (lake, files)) in lake.iter().zip(files).enumerate() {
        assert_eq!(
            lake, files,
            "{question}: row {index} (left: lake, right: files)"
        );
    }
    assert_eq!(lake.len(), files.len(), "{question}: number of rows");
}

/// Compares every question of `stormlog query`.
pub(crate) async fn compare_questions(name: &str, asker: &Asker, store: &Store) {
    let all = SessionFilter::default();
    let sessions = store.sessions(&all, None);
    let of_lake = asker.sessions(&all).await.unwrap();
    assert_same(
        &format!("{name}: sessions"),
        &texts(of_lake.iter().map(map_of)),
        &texts(sessions.iter().map(map_of)),
    );
    let all = OomFilter::default();
    let of_lake = asker.ooms(&all).await.unwrap();
    assert_same(
        &format!("{name}: ooms"),
        &texts(of_lake.iter().map(OomBundle::to_row)),
        &texts(store.oom_bundles(&all).iter().map(OomBundle::to_row)),
    );
    for metric in Metric::ALL {
        for group_by in GroupBy::ALL {
            let question = format!(
                "{name}: summary {} by {}",
                metric.as_str(),
                group_by.as_str()
            );
            let of_lake = asker.summary(metric, group_by).await.unwrap();
            assert_same(
                &question,
                &texts(of_lake.iter().map(map_of)),
                &texts(store.summarize(metric, group_by).iter().map(map_of)),
            );
        }
    }
    let all = IssueFilter::default();
    let of_lake = asker.issues(&all).await.unwrap();
    let of_files = store.issues_with(|| hidden_memory_anomalies(store), &all, &HashMap::new());
    assert_same(
        &format!("{name}: issues"),
        &texts(of_lake.iter().map(map_of)),
        &texts(of_files.iter().map(map_of)),
    );
}

async fn compare_moment(name: &str, asker: &Asker, store: &Store, filter: &CorrelationFilter) {
    let of_lake = asker.correlate(filter).await.unwrap();
    let of_files = correlate::correlate(store, filter).unwrap();
    assert_same(
        &format!("{name}: anchor"),
        &texts([of_lake.anchor.clone()]),
        &texts([of_files.anchor.clone()]),
    );
    assert_same(
        &format!("{name}: correlate {filter:?}"),
        &texts(of_lake.evidence.iter().map(map_of)),
        &texts(of_files.evidence.iter().map(map_of)),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_have_the_answers_of_the_files() {
    let paths: Vec<PathBuf> = FIXTURES.iter().map(|name| fixture(name)).collect();
    let lake = ingested(&paths);
    let (askers, _workers) = askers(lake.path()).await;
    let store = Store::open(&paths);
    let sessions = store.sessions(&SessionFilter::default(), None);
    for (name, asker) in &askers {
        compare_questions(name, asker, &store).await;
        // A moment in the middle of some sessions, one of them with phases.
        for row in sessions.iter().step_by(9) {
            let summary = &row.summary;
            let end = summary.ended_at_ns.unwrap_or(summary.started_at_ns);
            let filter = CorrelationFilter {
                at_ns: Some(summary.started_at_ns.midpoint(end)),
                window_ns: 5_000_000_000,
                scope: Scope::Distributed,
                ..CorrelationFilter::default()
            };
            compare_moment(name, asker, &store, &filter).await;
            let filter = CorrelationFilter {
                session_id: Some(summary.session_id.clone()),
                ..filter
            };
            compare_moment(name, asker, &store, &filter).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_recording_has_the_answers_of_its_files() {
    for name in FORMS {
        let paths = [fixture(name)];
        let lake = ingested(&paths);
        let (asker, store) = (asker(lake.path()).await, Store::open(&paths));
        compare_questions(name, &asker, &store).await;
        let first = store.sessions(&SessionFilter::default(), None);
        let filter = CorrelationFilter {
            at_ns: first.first().map(|row| row.summary.started_at_ns),
            ..CorrelationFilter::default()
        };
        compare_moment(name, &asker, &store, &filter).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_found_by_its_id() {
    let paths = [fixture("runs/two_ranks")];
    let lake = ingested(&paths);
    let (asker, store) = (asker(lake.path()).await, Store::open(&paths));
    let rows = store.events(&stormlog_analysis::query::EventFilter::default());
    let event = rows.get(rows.len() / 2).unwrap().event.to_event();
    let filter = CorrelationFilter {
        record_id: Some(stormlog_analysis::record_id(&event.to_record())),
        ..CorrelationFilter::default()
    };
    compare_moment("fixtures", &asker, &store, &filter).await;
    let unknown = CorrelationFilter {
        record_id: Some("telemetry-none".into()),
        ..CorrelationFilter::default()
    };
    let error = asker.correlate(&unknown).await.unwrap_err();
    assert_eq!(error.to_string(), "record_id not found: telemetry-none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diagnosis_has_the_findings_of_analyze() {
    // An OOM bundle without its sink has no session, as in `stormlog query`; its findings are in `findings`.
    let names = FIXTURES.iter().filter(|name| **name != "runs/oom_bundle");
    let paths: Vec<PathBuf> = names.map(|name| fixture(name)).collect();
    let lake = ingested(&paths);
    let (askers, _workers) = askers(lake.path()).await;
    let options = LoadOptions {
        on_error: OnError::Skip,
        ..LoadOptions::default()
    };
    let loaded = gather(&paths, &options).unwrap().loaded;
    let report = analyze(&loaded, &AnalyzeOptions::default()).unwrap();
    let expected = report.findings().map(|one| {
        let document = parse(&serde_json::to_vec(one).unwrap()).unwrap();
        document.as_map().unwrap().clone()
    });
    let mut expected = texts(expected);
    expected.sort();
    assert!(expected.len() > 5, "the fixtures have findings");
    let options = DiagnoseOptions {
        run_id: None,
        job_id: None,
        oom_horizon_hours: AnalyzeOptions::default().oom_horizon_hours,
    };
    for (name, asker) in &askers {
        let diagnosed = asker.diagnose(&options).await.unwrap();
        let found = diagnosed.iter().flat_map(|run| &run.findings);
        let mut found = texts(found.cloned());
        found.sort();
        assert_same(&format!("{name}: diagnose"), &found, &expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_only_reads() {
    let lake = ingested(&[fixture("runs/two_ranks")]);
    let asker = asker(lake.path()).await;
    for statement in [
        "DROP TABLE samples",
        "CREATE TABLE copy AS SELECT * FROM samples",
        "INSERT INTO samples SELECT * FROM samples",
        "COPY samples TO 'copy.parquet'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT 1; DROP TABLE samples",
        "not sql",
    ] {
        let error = asker.sql(statement).await.err();
        let error = error.unwrap_or_else(|| panic!("'{statement}' was accepted"));
        assert!(error.to_string().contains("only reads"), "{error}");
    }
    let counted = asker.sql("SELECT count(*) FROM samples").await.unwrap();
    let counted: Vec<RecordBatch> = counted.try_collect().await.unwrap();
    assert_eq!(counted[0].num_rows(), 1);
}

/// What the program prints.
fn printed(arguments: &[&str], lake: &Path) -> (String, String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_stormlog-lake"))
        .args(arguments)
        .arg("--at")
        .arg(lake)
        .output()
        .unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.success(),
    )
}

#[test]
fn every_form_of_output_has_the_rows() {
    let lake = ingested(&[fixture("recordings/ddp_two_ranks")]);
    let at = lake.path();
    let sql = "SELECT rank, count(*) AS samples FROM samples GROUP BY rank ORDER BY rank";
    let (json, _, _) = printed(&["sql", sql, "--json"], at);
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[1]["rank"], 1);
    let samples = rows[1]["samples"].as_i64().unwrap();
    let (csv, _, _) = printed(&["sql", sql, "--csv"], at);
    assert_eq!(csv.lines().nth(2).unwrap(), format!("1,{samples}"));
    let (table, _, _) = printed(&["sql", sql], at);
    assert!(
        table.starts_with("Rank  Samples\n----  -------\n"),
        "{table}"
    );
    let file = at.join("rows.parquet");
    let (_, errors, is_fine) = printed(&["sql", sql, "--parquet", file.to_str().unwrap()], at);
    assert!(is_fine, "{errors}");
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
    let (_, errors, is_fine) = printed(&["sql", "DROP TABLE samples"], at);
    assert!(!is_fine && errors.contains("only reads"), "{errors}");
}

#[test]
fn fleet_questions_answer_from_the_tables() {
    let lake = ingested(&[
        fixture("recordings/rank_leak_ddp"),
        fixture("recordings/losses_to_oom"),
    ]);
    let rows = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let (json, errors, is_fine) = printed(&arguments, lake.path());
        assert!(is_fine, "{errors}");
        serde_json::from_str(&json).unwrap()
    };
    let leaks = rows(&["leaks"]);
    assert!(
        leaks.iter().any(|row| row["kind"] == "allocator_leak"),
        "{leaks:?}"
    );
    let waste = rows(&["waste"]);
    let unused = waste[0]["unused_gib_hours"].as_f64().unwrap();
    assert!(unused >= 0.0 && unused <= waste[0]["reserved_gib_hours"].as_f64().unwrap());
    let ooms = rows(&["ooms", "--by", "host"]);
    assert!(ooms[0]["ooms"].as_i64().unwrap() > 0, "{ooms:?}");
    let headroom = rows(&["headroom"]);
    assert!(
        headroom[0]["headroom_bytes"].as_i64().is_some(),
        "{headroom:?}"
    );
    assert!(
        rows(&["regressions"])
            .iter()
            .all(|row| row["runs"].as_i64() > Some(0))
    );
}
