//! Writes a bundle to disk. The bundle is begun before the recording and finished after it. While
//! the recording runs, the manifest marks the bundle as unfinished.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::analyze::{AnalyzeOptions, Report, analyze};
use stormlog_capture::clock::seconds;
use stormlog_format::json::{Layout, Writer, map_of, value_of};
use stormlog_format::{
    Map, SessionStatus, SessionSummary, Text, Value, file_names, new_session_id,
};
use stormlog_redact::redacted;
use stormlog_report::analyze::Document;
use stormlog_report::document::{pretty, to_value};

use super::directory;
use super::seen::{Ending, Seen, Subject};
use super::summary::Summary;
use crate::Exit;
use crate::whole_file::write_whole;

use super::Flavour;

/// The version of the manifest of a bundle, the same as in stormlog 0.3.9.
const MANIFEST_VERSION: i64 = 2;

/// The text that the manifest contains as its error while the diagnosis runs; the text remains if
/// the process is killed.
const NOT_ENDED: &str = "the diagnosis is still running, or was killed";

/// The settings of a diagnosis that must be known before its bundle is begun.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command that writes the bundle, such as `stormlog diagnose` or `gpumemprof diagnose`.
    pub flavour: Flavour,
    /// The output path that the user gave; without one, the bundle is written to a new directory
    /// inside the current directory.
    pub output: Option<PathBuf>,
    /// The command line of the diagnosis, which is stored in the manifest of the bundle.
    pub command_line: String,
    /// The content of `environment.json`.
    pub environment: Map,
    /// A predicted out-of-memory error counts as a risk if it is expected within this number of
    /// hours.
    pub oom_horizon_hours: f64,
    /// Whether the bundle contains the history of PyTorch's allocator.
    pub native_history: bool,
}

/// The directory of files that a `diagnose` command writes, while it is being written.
#[derive(Debug)]
pub struct Bundle {
    plan: Plan,
    directory: PathBuf,
    session_id: Text,
    files: Vec<Cow<'static, str>>,
}

/// The result of a `diagnose` command.
#[derive(Debug)]
pub struct Outcome {
    /// The directory to which the files of the diagnosis were written.
    pub directory: PathBuf,
    /// The exit code of the diagnosis: success, a memory risk, or a failure.
    pub exit: Exit,
    /// The names of the raised risk flags of the summary, and the kinds of the findings.
    pub raised: Vec<String>,
    /// The content of `diagnostic_summary.json`.
    pub summary: Map,
    /// The content of `report.json`.
    pub report: serde_json::Value,
    /// Why the diagnosis failed or is incomplete; `None` if it is complete.
    pub error: Option<String>,
}

impl Bundle {
    /// Creates the directory of a bundle and the files that are known before the recording.
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
            // If the bundle cannot be begun, its directory is removed again, unless it contains
            // files that existed before.
            let _ = fs::remove_file(bundle.directory.join(file_names::ENVIRONMENT));
            let _ = fs::remove_dir(&bundle.directory);
        }
        begun.map(|()| bundle)
    }

    fn begin_files(&mut self) -> anyhow::Result<()> {
        let environment = self.plan.environment.clone();
        self.write(file_names::ENVIRONMENT, Value::Map(environment))?;
        self.write_manifest(None, None, SessionStatus::Running, Some(NOT_ENDED))
    }

    /// The directory to which the files of the diagnosis are written.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the directory inside the bundle to which the recorder writes its events.
    pub fn telemetry(&self) -> PathBuf {
        self.directory.join("telemetry")
    }

    /// Writes the id and the metadata of the recorded session to the manifest, after the recorder
    /// has started the session.
    pub fn session_has_begun(&mut self, session: &SessionSummary) -> anyhow::Result<()> {
        self.session_id = session.session_id.clone();
        self.write_manifest(None, Some(session), SessionStatus::Running, Some(NOT_ENDED))
    }

    /// Writes to the manifest why nothing could be recorded.
    pub fn give_up(mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        // A failed write of the manifest is ignored, because the caller reports the original error
        // anyway.
        let _ = self.write_manifest(
            Some((Exit::Failure, false)),
            None,
            SessionStatus::Incomplete,
            Some(&error),
        );
    }

    /// Analyzes the recording and writes the remaining files of the bundle: the timeline, the
    /// summary, the report and the final manifest.
    pub fn finish(mut self, seen: &Seen) -> Outcome {
        let subject = seen.subject();
        let options = AnalyzeOptions {
            oom_horizon_hours: self.plan.oom_horizon_hours,
            ..AnalyzeOptions::default()
        };
        let (report, problem) = match analyze(&seen.recorded, &options) {
            Ok(report) => (report, None),
            Err(error) => (nothing_analyzed(), Some(error.to_string())),
        };
        let summary = Summary::of(seen, &subject, &report);
        let document = to_value(&Document::of(&report));
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
        let timeline = Timeline::of(seen, &subject);
        let written = self.write_results(&timeline, &summary, &document);
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
            summary: map_of(&summary),
            raised: summary.raised,
            report: document,
            error,
        }
    }

    fn write_results(
        &mut self,
        timeline: &Timeline,
        summary: &Summary,
        report: &serde_json::Value,
    ) -> anyhow::Result<()> {
        self.write(file_names::TIMELINE, value_of(timeline))?;
        self.write(file_names::SUMMARY, value_of(summary))?;
        self.write_text(file_names::REPORT, &pretty(report))
    }

    fn write(&mut self, name: &'static str, value: Value) -> anyhow::Result<()> {
        let text = Writer::new(Layout::Indented).to_string(&redacted(value));
        self.write_text(name, &text)
    }

    fn write_text(&mut self, name: &'static str, text: &str) -> anyhow::Result<()> {
        write_whole(&self.directory.join(name), text.as_bytes())?;
        self.adopt([name]);
        Ok(())
    }

    /// Adds files to the manifest that another process wrote into the directory of the bundle.
    pub fn adopt<N: Into<Cow<'static, str>>>(&mut self, names: impl IntoIterator<Item = N>) {
        for name in names.into_iter().map(Into::into) {
            if !self.files.contains(&name) {
                self.files.push(name);
            }
        }
    }

    /// Writes the manifest. Without an `outcome`, the manifest marks the diagnosis as still
    /// running.
    fn write_manifest(
        &mut self,
        outcome: Option<(Exit, bool)>,
        session: Option<&SessionSummary>,
        fallback: SessionStatus,
        error: Option<&str>,
    ) -> anyhow::Result<()> {
        let created = jiff::Timestamp::now();
        let names_history = matches!(self.plan.flavour, Flavour::Stormlog | Flavour::Torch);
        let itself = outcome.map(|_| file_names::MANIFEST);
        let files = self.files.iter().map(|name| &**name).chain(itself);
        let manifest = BundleManifest {
            schema_version: MANIFEST_VERSION,
            version: MANIFEST_VERSION,
            created_iso: created.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            command_line: &self.plan.command_line,
            native_history_enabled: names_history.then_some(self.plan.native_history),
            files: files.collect(),
            exit_code: outcome.map(|(exit, _)| exit.code()),
            risk_detected: outcome.map(|(_, is_risk)| is_risk),
            session_id: session.map_or(&self.session_id, |session| &session.session_id),
            session_status: session.map_or(fallback, |session| session.status),
            session: session.map(SessionSummary::to_map),
            error,
        };
        let text = Writer::new(Layout::Indented).to_string(&value_of(&manifest));
        write_whole(&self.directory.join(file_names::MANIFEST), text.as_bytes())
    }
}

/// The manifest of a diagnose bundle. The manifest is written before the recording and replaced at
/// the end. Until the diagnosis has ended, `exit_code` and `risk_detected` are null and `error` is
/// set.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BundleManifest<'a> {
    #[schemars(extend("const" = MANIFEST_VERSION))]
    schema_version: i64,
    #[schemars(extend("const" = MANIFEST_VERSION))]
    version: i64,
    created_iso: String,
    command_line: &'a str,
    /// Whether the bundle has the history of PyTorch's allocator; missing in bundles of tfmemprof
    /// and jaxmemprof.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    native_history_enabled: Option<bool>,
    /// The names of the files, in the order in which they were written.
    files: Vec<&'a str>,
    #[schemars(range(min = 0, max = 2))]
    exit_code: Option<u8>,
    risk_detected: Option<bool>,
    session_id: &'a Text,
    session_status: SessionStatus,
    /// The recorded session, in the form that session-summary.schema.json describes.
    session: Option<Map>,
    /// Why the diagnosis failed or did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    error: Option<&'a str>,
}

/// The status of the diagnosed session: interrupted if the recording was cut short, otherwise the
/// status that the recorder has stored.
fn status(session: &SessionSummary, ending: &Ending) -> SessionStatus {
    match ending {
        Ending::CutShort(_) => SessionStatus::Interrupted,
        Ending::Complete | Ending::Failed(_) => session.status.finished(),
    }
}

/// The samples of the recording, as three lists of equal length; they are empty if only one sample
/// was taken. If the allocator's counter is unknown, the device's counter is used.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Timeline {
    /// Times of the samples in seconds since the Unix epoch.
    timestamps: Vec<f64>,
    allocated: Vec<i64>,
    reserved: Vec<i64>,
}

impl Timeline {
    fn of(seen: &Seen, subject: &Subject) -> Self {
        let mut timeline = Self::default();
        for point in subject.points.iter().filter(|_| seen.has_window) {
            let Some(level) = point.counters.level() else {
                continue;
            };
            let reserved = point.counters.allocator_reserved_bytes;
            timeline.timestamps.push(seconds(point.timestamp_ns));
            timeline.allocated.push(level);
            timeline.reserved.push(reserved.unwrap_or(level));
        }
        timeline
    }
}

fn nothing_analyzed() -> Report {
    let nothing = analyze(&[], &AnalyzeOptions::default());
    nothing.expect("an analysis without a selected session or rank cannot fail")
}
