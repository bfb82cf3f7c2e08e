//! Reports findings about running jobs as they appear: the detectors analyze the growing recording
//! repeatedly.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use stormlog_analysis::analyze::RunReport;
use stormlog_analysis::detect::{Finding, Kind, Severity};
use stormlog_analysis::query::Sighting;
use stormlog_analysis::{Choice, Loaded, OpenRun, Pace};
use stormlog_format::SessionStatus;
use stormlog_report::analyze::cause_lines;

use crate::machine::on_this_machine;

/// Identifies a finding in successive analyses: its session, kind, rank and device stay the same,
/// while its numbers change.
type Key = (String, Kind, Option<u32>, i64);

/// Remembers which findings `query watch` has already printed, so that a finding is printed again
/// only when it becomes more severe or its cause becomes known.
#[derive(Default)]
pub(super) struct Findings {
    /// The severity with which each finding was reported, and whether its cause was known.
    known: HashMap<Key, (Severity, bool)>,
    run: Option<OpenRun>,
    next: Option<Instant>,
}

impl Findings {
    /// Returns the findings that are new since the last analysis, when another analysis is due.
    /// Findings about runs that have ended are left out, unless `ended_too` is set.
    pub(super) fn look(&mut self, paths: &[PathBuf], ended_too: bool) -> Vec<Sighting> {
        let begin = Instant::now();
        if self.next.is_some_and(|next| begin < next) {
            return Vec::new();
        }
        let run = self.run.take();
        let mut run = run.unwrap_or_else(|| OpenRun::new(paths.to_vec(), Choice::default()));
        let found = self.look_now(&mut run, ended_too);
        self.run = Some(run);
        self.next = Some(Instant::now() + Pace::WATCHED.after(begin.elapsed()));
        found
    }

    fn look_now(&mut self, open: &mut OpenRun, ended_too: bool) -> Vec<Sighting> {
        // If nothing is recorded yet or a file is being renamed, the files are read again by the
        // next analysis.
        if on_this_machine(|here| open.refresh(&|_| {}, here)).is_err() {
            return Vec::new();
        }
        let Ok(report) = open.report() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for run in &report.runs {
            let goes_on = is_running(run);
            for finding in run.diagnosis.findings() {
                let key = (
                    finding.session_id.clone(),
                    finding.kind,
                    finding.rank,
                    finding.device_id,
                );
                // A finding that was reported while its run was active is still updated after the
                // run has ended.
                let is_watched = goes_on || ended_too || self.known.contains_key(&key);
                let is_news = is_watched && self.note(key, finding);
                if is_news {
                    found.push(sighting(finding, open.loaded()));
                }
            }
        }
        found
    }

    /// Stores a finding; returns `true` if the finding is new or more severe than before, or if its
    /// cause has become known.
    fn note(&mut self, key: Key, finding: &Finding) -> bool {
        let now = (finding.severity, finding.cause.is_some());
        match self.known.insert(key, now) {
            None => true,
            Some(before) => now.0 > before.0 || (now.1 && !before.1),
        }
    }
}

fn is_running(run: &RunReport) -> bool {
    let mut sessions = run.sessions.iter();
    sessions.any(|session| session.status == SessionStatus::Running)
}

fn sighting(finding: &Finding, loaded: &[Loaded]) -> Sighting {
    let mut sessions = loaded.iter().flat_map(|one| &one.sessions);
    let session = sessions.find(|session| session.summary.session_id == *finding.session_id);
    let file = session.and_then(|session| session.sources.first());
    let causes = cause_lines(finding);
    let message = std::iter::once(finding.explanation.clone()).chain(causes);
    Sighting {
        kind: finding.kind.as_str(),
        severity: finding.severity.as_str().into(),
        timestamp_ns: finding.onset_ns,
        session_id: Some(finding.session_id.as_str().into()),
        rank: finding.rank.map(i64::from),
        message: message.collect::<Vec<_>>().join("; ").as_str().into(),
        source_path: file.map_or("", String::as_str).into(),
    }
}
