//! Diagnoses runs inside the SQL engine: the detectors are aggregate functions, so that the workers
//! of a cluster can run them.

use stormlog_format::json::parse;
use stormlog_format::{Map, Value};

use crate::asker::{Asker, quoted};
use crate::columns::Texts;
use crate::error::AskError;
use crate::event_rows::{EventQuery, event_columns};
use crate::functions::DIAGNOSED;

/// Which runs to diagnose, and how many hours ahead running out of memory is reported as a risk.
#[derive(Clone, Debug)]
pub struct DiagnoseOptions {
    /// Diagnoses only the run with this id.
    pub run_id: Option<String>,
    /// Diagnoses only runs of the job with this id.
    pub job_id: Option<String>,
    /// A run that will run out of memory within this many hours counts as a risk.
    pub oom_horizon_hours: f64,
}

/// The memory problems that Stormlog's detectors find in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDiagnosis {
    /// The id of the run in the tables; all runs of a job that was started again have the same id.
    pub run_id: String,
    /// The ids of the run's sessions, the newest first.
    pub session_ids: Vec<String>,
    /// The diagnosis in one line: the most severe problem, and how many others there are.
    pub headline: String,
    /// Whether the detectors could not decide anything, because the run has too few samples.
    pub is_too_short: bool,
    /// The detected problems as objects with the keys of `stormlog analyze --format json`, the most
    /// severe first.
    pub findings: Vec<Map>,
}

impl Asker {
    /// Diagnoses the runs that the options select, in the order of their ids.
    pub async fn diagnose(&self, options: &DiagnoseOptions) -> Result<Vec<RunDiagnosis>, AskError> {
        let mut diagnosed = Vec::new();
        for batch in self.batches(&query(options)).await? {
            let run_id = Texts::of(&batch, "run_id")?;
            let diagnosis = Texts::of(&batch, "diagnosis")?;
            for row in 0..batch.num_rows() {
                diagnosed.extend(read(run_id.text(row), diagnosis.text(row))?);
            }
        }
        diagnosed.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        Ok(diagnosed)
    }
}

fn read(run_id: &str, text: &str) -> Result<Vec<RunDiagnosis>, AskError> {
    let broken = || AskError::Engine(format!("run '{run_id}' has no readable diagnosis"));
    let Ok(Value::List(runs)) = parse(text.as_bytes()) else {
        return Err(broken());
    };
    let runs = runs.iter().map(|run| {
        let run = run.as_map().ok_or_else(broken)?;
        let list = |key: &str| match run.get(key) {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        let ids = list("session_ids").iter().filter_map(Value::as_text);
        let findings = list("findings").iter().filter_map(Value::as_map);
        let headline = run.get("headline").and_then(Value::as_text);
        Ok(RunDiagnosis {
            run_id: run_id.to_owned(),
            session_ids: ids.map(ToString::to_string).collect(),
            headline: headline.ok_or_else(broken)?.to_string(),
            is_too_short: run.get("is_too_short") == Some(&Value::Bool(true)),
            findings: findings.cloned().collect(),
        })
    });
    runs.collect()
}

/// The SQL statement of a diagnosis. It contains two aggregates: `session_events` groups events by
/// session, then `diagnose_run` groups sessions by run. A session that the table `sessions` lists
/// with several paths is read once.
fn query(options: &DiagnoseOptions) -> String {
    let mut conditions = vec!["TRUE".to_owned()];
    if let Some(run) = &options.run_id {
        conditions.push(format!("run_id = {}", quoted(run)));
    }
    if let Some(job) = &options.job_id {
        conditions.push(format!("job_id = {}", quoted(job)));
    }
    let condition = conditions.join(" AND ");
    let events = EventQuery {
        with: String::new(),
        of_samples: Some("TRUE".to_owned()),
        of_events: Some("TRUE".to_owned()),
    };
    // Without a condition every session is selected, so the events need not be joined with the
    // selected sessions.
    let chosen = if conditions.len() > 1 { "chosen" } else { "" };
    let columns = event_columns().into_iter().map(|(name, _)| name);
    let columns: Vec<&str> = columns.collect();
    let session = DIAGNOSED.map(|name| format!("chosen.{name}")).join(", ");
    format!(
        "WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY source_id, session_id \
          ORDER BY source_path) AS copy FROM sessions WHERE {condition}), \
         chosen AS (SELECT * FROM numbered WHERE copy = 1), \
         recorded AS ({}), \
         tracks AS (SELECT source_id, session_id, session_events({}) AS events \
          FROM recorded GROUP BY source_id, session_id), \
         bundles AS (SELECT session_id, array_agg(details ORDER BY bundle_path) AS details \
          FROM ooms WHERE details IS NOT NULL AND session_id IS NOT NULL GROUP BY session_id) \
         SELECT chosen.run_id AS run_id, diagnose_run({session}, tracks.events, bundles.details, \
          CAST({} AS DOUBLE)) AS diagnosis \
         FROM chosen LEFT JOIN tracks ON chosen.source_id = tracks.source_id \
          AND chosen.session_id = tracks.session_id \
         LEFT JOIN bundles ON chosen.session_id = bundles.session_id \
         GROUP BY chosen.run_id",
        events.sql(chosen),
        columns.join(", "),
        options.oom_horizon_hours,
    )
}
