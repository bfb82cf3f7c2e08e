//! The bundle on disk: begun before the recording and finished after it. In between, its manifest
//! marks it as unfinished.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use stormlog_analysis::analyze::{AnalyzeOptions, Report, analyze};
use stormlog_capture::record::clock::seconds;
use stormlog_capture::redact::redacted;
use stormlog_compat::{Analyses, to_json};
use stormlog_format::json::{Layout, Writer};
use stormlog_format::{
    Map, SessionStatus, SessionSummary, Text, Value, file_names, new_session_id,
};

use super::directory;
use super::seen::{Ending, Seen, Subject};
use super::summary::Summary;
use crate::Exit;
use crate::cli::write_whole;

use super::Flavour;

/// The version of manifests, which is that of stormlog 0.3.9.
const MANIFEST_VERSION: i64 = 2;

/// The error in the manifest while the diagnosis runs. It stays when the process is killed.
const NOT_ENDED: &str = "the diagnosis is still running, or was killed";

/// The inputs of a bundle.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that writes it.
    pub flavour: Flavour,
    /// The path given by the user.
    pub output: Option<PathBuf>,
    /// The command line.
    pub command_line: String,
    /// `environment.json`.
    pub environment: Map,
    /// How far ahead running out of memory counts as a risk, in hours.
    pub oom_horizon_hours: f64,
    /// Whether it contains the history of PyTorch's allocator.
    pub native_history: bool,
}

/// A bundle being written.
#[derive(Debug)]
pub struct Bundle {
    plan: Plan,
    directory: PathBuf,
    session_id: Text,
    files: Vec<Cow<'static, str>>,
}

/// The result of a diagnosis.
#[derive(Debug)]
pub struct Outcome {
    /// The directory of the bundle.
    pub directory: PathBuf,
    /// Success, a memory risk, or a failure.
    pub exit: Exit,
    /// Raised flags and kinds of findings.
    pub raised: Vec<String>,
    /// `diagnostic_summary.json`.
    pub summary: Map,
    /// `report.json`, when there was data to analyze.
    pub report: Option<serde_json::Value>,
    /// Why it failed or is incomplete.
    pub error: Option<String>,
}

impl Bundle {
    /// Creates the directory and the files that are known before the recording.
    pub fn begin(plan: Plan) -> anyhow::Result<Self> {
        let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let directory = directory::make(plan.output.as_deref(), plan.flavour.prefix(), &stamp)?;
        let mut bundle = Self {
            plan,
            directory,
            session_id: new_session_id(),
            files: Vec::new(),
        };
        let begun = bundle.begin_files();
        if begun.is_err() {
            // A directory that this call created is removed again; files that were there before
            // stay.
            let _ = fs::remove_file(bundle.directory.join(file_names::ENVIRONMENT));
            let _ = fs::remove_dir(&bundle.directory);
        }
        begun.map(|()| bundle)
    }

    fn begin_files(&mut self) -> anyhow::Result<()> {
        let environment = self.plan.environment.clone();
        self.write(file_names::ENVIRONMENT, &Value::Map(environment))?;
        self.write_manifest(None, None, SessionStatus::Running, Some(NOT_ENDED))
    }

    /// The directory of the bundle.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The sink of the recording.
    pub fn telemetry(&self) -> PathBuf {
        self.directory.join("telemetry")
    }

    /// Sets the id of the recorded session once it is known.
    pub fn session_has_begun(&mut self, session: &SessionSummary) -> anyhow::Result<()> {
        self.session_id = session.session_id.clone();
        self.write_manifest(None, Some(session), SessionStatus::Running, Some(NOT_ENDED))
    }

    /// Writes the reason why nothing could be recorded to the manifest.
    pub fn give_up(mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        // The caller gets the error itself, so a failed write of the manifest is ignored.
        let _ = self.write_manifest(
            Some((Exit::Failure, false)),
            None,
            SessionStatus::Incomplete,
            Some(&error),
        );
    }

    /// Writes the timeline, the summary and the report.
    pub fn finish(mut self, seen: &Seen) -> Outcome {
        let subject = seen.subject();
        let options = AnalyzeOptions {
            oom_horizon_hours: self.plan.oom_horizon_hours,
            ..AnalyzeOptions::default()
        };
        let (report, problem) = match analyze(&seen.recorded, &options) {
            Ok(report) => (report, None),
            Err(error) => (empty_report(), Some(error.to_string())),
        };
        let summary = Summary::of(seen, &subject, &report);
        let document = to_json(&report, &Analyses::of(&report.selected_run));
        let session = subject.session.clone().map(|mut session| {
            session.status = status(&session, &seen.ending);
            session
        });
        let ending = match &seen.ending {
            Ending::Complete => problem,
            Ending::CutShort(why) | Ending::Failed(why) => Some(why.clone()),
        };
        let is_risk = !summary.raised.is_empty();
        let mut exit = match (is_risk, &ending) {
            (true, _) => Exit::Risk,
            (false, None) => Exit::Fine,
            (false, Some(_)) => Exit::Failure,
        };
        let written = self.write_results(seen, &subject, &summary, &document);
        let mut error = ending;
        if let Err(failure) = written {
            exit = Exit::Failure;
            error = Some(format!("{failure:#}"));
        }
        let last_word = self.write_manifest(
            Some((exit, is_risk)),
            session.as_ref(),
            if error.is_some() {
                SessionStatus::Incomplete
            } else {
                SessionStatus::Completed
            },
            error.as_deref(),
        );
        if let Err(failure) = last_word {
            exit = Exit::Failure;
            error.get_or_insert(format!("{failure:#}"));
        }
        Outcome {
            directory: self.directory,
            exit,
            raised: summary.raised,
            summary: summary.map,
            report: Some(document),
            error,
        }
    }

    fn write_results(
        &mut self,
        seen: &Seen,
        subject: &Subject,
        summary: &Summary,
        report: &serde_json::Value,
    ) -> anyhow::Result<()> {
        self.write(file_names::TIMELINE, &timeline(seen, subject))?;
        self.write(file_names::SUMMARY, &Value::Map(summary.map.clone()))?;
        let text = format!("{}\n", serde_json::to_string_pretty(report)?);
        self.write_text(file_names::REPORT, &text)
    }

    fn write(&mut self, name: &'static str, value: &Value) -> anyhow::Result<()> {
        let value = redacted(value.clone());
        self.write_text(name, &Writer::new(Layout::Indented).to_string(&value))
    }

    fn write_text(&mut self, name: &'static str, text: &str) -> anyhow::Result<()> {
        write_whole(&self.directory.join(name), text.as_bytes())?;
        self.adopt([name]);
        Ok(())
    }

    /// Adds files that another process wrote to the directory.
    pub fn adopt<N: Into<Cow<'static, str>>>(&mut self, names: impl IntoIterator<Item = N>) {
        for name in names.into_iter().map(Into::into) {
            if !self.files.contains(&name) {
                self.files.push(name);
            }
        }
    }

    /// Writes the manifest. Without an outcome, the manifest marks the diagnosis as still running.
    fn write_manifest(
        &mut self,
        outcome: Option<(Exit, bool)>,
        session: Option<&SessionSummary>,
        fallback: SessionStatus,
        error: Option<&str>,
    ) -> anyhow::Result<()> {
        let created = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
            .to_string();
        let status = session.map_or(fallback, |session| session.status);
        let id = session.map_or(&self.session_id, |session| &session.session_id);
        let mut manifest = Map::new();
        manifest.insert("schema_version", MANIFEST_VERSION);
        manifest.insert("version", MANIFEST_VERSION);
        manifest.insert("created_iso", &*created);
        manifest.insert("command_line", &*self.plan.command_line);
        if matches!(self.plan.flavour, Flavour::Stormlog | Flavour::Torch) {
            manifest.insert(
                "native_history_enabled",
                Value::Bool(self.plan.native_history),
            );
        }
        let itself = outcome.map(|_| file_names::MANIFEST);
        let files = self.files.iter().map(|name| &**name).chain(itself);
        manifest.insert("files", Value::List(files.map(Value::from).collect()));
        manifest.insert(
            "exit_code",
            outcome.map_or(Value::Null, |(exit, _)| Value::Int(i64::from(exit.code()))),
        );
        manifest.insert(
            "risk_detected",
            outcome.map_or(Value::Null, |(_, is_risk)| Value::Bool(is_risk)),
        );
        manifest.insert("session_id", id.clone());
        manifest.insert("session_status", status.as_str());
        let session = session.map_or(Value::Null, |session| Value::Map(session.to_map()));
        manifest.insert("session", session);
        if let Some(error) = error {
            manifest.insert("error", error);
        }
        let text = Writer::new(Layout::Indented).map_to_string(&manifest);
        write_whole(&self.directory.join(file_names::MANIFEST), text.as_bytes())
    }
}

/// The status of the diagnosed session: that of its recorder, unless the recording was cut short.
fn status(session: &SessionSummary, ending: &Ending) -> SessionStatus {
    match ending {
        Ending::CutShort(_) => SessionStatus::Interrupted,
        Ending::Complete | Ending::Failed(_) => session.status.finished(),
    }
}

/// The samples of the subject. The device's counter replaces an unknown allocator counter.
fn timeline(seen: &Seen, subject: &Subject) -> Value {
    let points = subject.points.iter().filter(|_| seen.has_window);
    let known: Vec<(f64, i64, i64)> = points
        .filter_map(|point| {
            let level = point.level()?;
            let reserved = point.counters.allocator_reserved_bytes.unwrap_or(level);
            Some((seconds(point.timestamp_ns), level, reserved))
        })
        .collect();
    let list = |pick: fn(&(f64, i64, i64)) -> Value| Value::List(known.iter().map(pick).collect());
    let mut map = Map::new();
    map.insert("timestamps", list(|point| Value::Float(point.0)));
    map.insert("allocated", list(|point| Value::Int(point.1)));
    map.insert("reserved", list(|point| Value::Int(point.2)));
    Value::Map(map)
}

fn empty_report() -> Report {
    let nothing = analyze(&[], &AnalyzeOptions::default());
    nothing.expect("no session and no rank was asked for")
}
