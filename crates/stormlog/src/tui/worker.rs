//! The worker: a thread that loads and analyzes artifacts for the terminal UI, one request after
//! the other.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stormlog_analysis::analyze::Report;
use stormlog_analysis::issue::{
    DecidedState, Decision, Issue, States, read_states_of, sidecar_of, store_decision,
};
use stormlog_analysis::query::{SessionFilter, SourceKind, Store};
use stormlog_analysis::{Choice, LoadOptions, OpenRun, Pace, read_rollups};
use stormlog_format::{SessionStatus, Text};
use stormlog_report::Story;

use super::effect::{Effect, PlotFormat};
use super::folder;
use super::message::{Fresh, Message};
use super::outline::Outline;
use crate::machine::{now_ns, on_this_machine};
use crate::progress::total_bytes;

/// The shortest time between two progress messages, about the time between two frames of the
/// screen.
const REPORT_EVERY: Duration = Duration::from_millis(33);

/// Starts the worker's thread. The worker carries out the effects (descriptions of work) that are
/// sent to it, one after the other; its replies arrive as messages.
pub(crate) fn start(replies: Sender<Message>) -> Sender<Effect> {
    let (requests, inbox) = channel();
    std::thread::spawn(move || Desk::new(replies).work(&inbox));
    requests
}

/// The state of the worker's thread: the opened paths and what was loaded and computed from them.
struct Desk {
    replies: Sender<Message>,
    store: Option<Store>,
    paths: Vec<PathBuf>,
    run: OpenRun,
    report: Option<(Arc<Report>, Story)>,
    /// The id of a session of the shown run, by which the run is found again after a refresh.
    shown: Option<String>,
    /// When to analyze the run again; `None` if no session of the run is running.
    next: Option<Instant>,
}

impl Desk {
    fn new(replies: Sender<Message>) -> Self {
        Self {
            replies,
            store: None,
            paths: Vec::new(),
            run: OpenRun::default(),
            report: None,
            shown: None,
            next: None,
        }
    }

    /// Waits for the next request; returns a refresh if no request arrives before the next analysis
    /// is due.
    fn next(&self, inbox: &Receiver<Effect>) -> Option<Effect> {
        let Some(next) = self.next else {
            return inbox.recv().ok();
        };
        match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(effect) => Some(effect),
            Err(RecvTimeoutError::Timeout) => Some(Effect::Refresh),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn work(&mut self, inbox: &Receiver<Effect>) {
        while let Some(effect) = self.next(inbox) {
            let done = match effect {
                Effect::Open(paths) => self.open(paths),
                Effect::Refresh => self.refresh(),
                Effect::OpenText(text) => match folder::paths(&text) {
                    paths if paths.is_empty() => Err(anyhow::anyhow!("no path matches '{text}'")),
                    paths => self.open(paths),
                },
                Effect::OpenSession(id) => self.analyze(Some(id)),
                Effect::ShowRun(index) => self.show_run(index),
                Effect::Compare(text) => self.compare(&folder::home(&text)),
                Effect::Decide(id, state) => self.decide(&id, state),
                Effect::SavePlot(format, part, ranks) => self.save_plot(format, part, &ranks),
                // The other effects are handled by the clerk and by the main loop.
                _ => Ok(()),
            };
            if let Err(error) = done
                && self
                    .replies
                    .send(Message::Failed(format!("{error:#}")))
                    .is_err()
            {
                return;
            }
        }
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "all callers return the result of this function"
    )]
    fn reply(&self, message: Message) -> anyhow::Result<()> {
        // When the program ends, the receiver of messages no longer exists. An error of sending is
        // ignored, because the next attempt to receive a request ends the thread.
        let _ = self.replies.send(message);
        Ok(())
    }

    /// Opens paths: reads the manifests first, so that the sessions can be shown at once, and then
    /// all events.
    fn open(&mut self, paths: Vec<PathBuf>) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.next = None;
        self.shown = None;
        for path in &paths {
            if !path.exists() {
                anyhow::bail!("'{}' does not exist", path.display());
            }
        }
        self.reply(Message::Opened(paths.clone()))?;
        let store = Store::open(&paths);
        let from_manifests = store.catalog().sources.iter().all(|source| {
            let sessions = source
                .manifest
                .as_ref()
                .map(|manifest| manifest.sessions.len());
            sessions.is_some_and(|count| count > 0)
        });
        if from_manifests {
            let rows = on_this_machine(|at| store.sessions(&SessionFilter::default(), Some(at)));
            self.reply(Message::Sessions(rows))?;
        }
        let rollups: Vec<_> = store
            .catalog()
            .sources
            .iter()
            .filter(|source| source.kind == SourceKind::Sink)
            .filter_map(|source| read_rollups(&source.path))
            .collect();
        if !rollups.is_empty() {
            self.reply(Message::Outline(Outline::of(&rollups)))?;
        }
        self.paths = paths;
        self.load(&store)?;
        self.reply(Message::Looking)?;
        self.analyze(None)?;
        let rows = on_this_machine(|at| store.sessions(&SessionFilter::default(), Some(at)));
        self.reply(Message::Sessions(rows))?;
        self.store = Some(store);
        let issues = self.issues()?;
        self.reply(Message::Issues(issues))?;
        if self.run.is_running() {
            self.refresh_after(begin);
            self.reply(Message::Live)?;
        }
        Ok(())
    }

    /// Schedules the next refresh after work that started at `begin` and has just ended.
    fn refresh_after(&mut self, begin: Instant) {
        self.next = Some(Instant::now() + Pace::WATCHED.after(begin.elapsed()));
    }

    /// Reads what was appended to the growing artifacts, and analyzes the runs again. If reading
    /// fails because a file is being renamed or deleted, the next refresh tries again.
    fn refresh(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        if on_this_machine(|here| self.run.refresh(&|_| {}, here)).is_err() {
            self.refresh_after(begin);
            return Ok(());
        }
        let opened = Store::open(&self.paths);
        opened.supply(self.run.gathered().whole_files());
        let (report, story) = self.analyzed(self.shown.clone())?;
        let rows = on_this_machine(|at| opened.sessions(&SessionFilter::default(), Some(at)));
        self.store = Some(opened);
        let is_live = self.run.is_running();
        self.next = None;
        if is_live {
            self.refresh_after(begin);
        }
        let issues = self.issues()?;
        self.reply(Message::Refreshed(Box::new(Fresh {
            report,
            story,
            rows,
            issues,
            at_ns: now_ns(),
            is_live,
        })))
    }

    /// Loads the artifacts. Of those that are still written, the positions are remembered, so that
    /// a refresh reads only what was appended.
    fn load(&mut self, store: &Store) -> anyhow::Result<()> {
        let total = total_bytes(self.paths.iter().map(PathBuf::as_path));
        let progress = Mutex::new((0_u64, Instant::now()));
        let advance = |read: u64| {
            let Ok(mut progress) = progress.lock() else {
                return;
            };
            progress.0 += read;
            if progress.1.elapsed() >= REPORT_EVERY {
                progress.1 = Instant::now();
                let _ = self.replies.send(Message::Progress(progress.0, total));
            }
        };
        let options = LoadOptions {
            progress: &advance,
            ..LoadOptions::skipping()
        };
        let manifests = store.catalog().sources.iter();
        let mut sessions = manifests.filter_map(|source| Some(&source.manifest.as_ref()?.sessions));
        let grows = sessions.any(|sessions| {
            sessions
                .iter()
                .any(|one| one.status == SessionStatus::Running)
        });
        self.run = OpenRun::new(self.paths.clone(), Choice::default());
        if !grows || on_this_machine(|here| self.run.refresh(&advance, here)).is_err() {
            let opened = on_this_machine(|here| {
                OpenRun::open(&self.paths, Choice::default(), &options, here)
            });
            self.run = opened.map_err(|(_, error)| error)?;
        }
        store.supply(self.run.gathered().whole_files());
        Ok(())
    }

    fn analyze(&mut self, session_id: Option<String>) -> anyhow::Result<()> {
        let (report, story) = self.analyzed(session_id)?;
        self.shown = session_of(&report, 0);
        self.reply(Message::Run(report, Box::new(story)))
    }

    /// Analyzes all loaded sessions, with the run of the given session at the front of the report,
    /// and draws the chart of the first run.
    fn analyzed(&mut self, session_id: Option<String>) -> anyhow::Result<(Arc<Report>, Story)> {
        self.run.select(session_id);
        let report = self.run.report()?;
        let story = self.story(&report, 0);
        self.report = Some((Arc::clone(&report), story.clone()));
        Ok((report, story))
    }

    fn story(&self, report: &Report, index: usize) -> Story {
        let run = report.runs.get(index);
        run.map_or_else(Story::default, |run| {
            Story::of_report(run, self.run.loaded())
        })
    }

    fn show_run(&mut self, index: usize) -> anyhow::Result<()> {
        let Some((report, _)) = &self.report else {
            return Ok(());
        };
        let report = Arc::clone(report);
        if report.runs.get(index).is_none() {
            return Ok(());
        }
        let story = self.story(&report, index);
        self.shown = session_of(&report, index);
        self.report = Some((report, story.clone()));
        self.reply(Message::Shown(index, Box::new(story)))
    }

    fn compare(&self, path: &Path) -> anyhow::Result<()> {
        let comparison = super::comparison::with(self.run.loaded(), self.first_path(), path)?;
        self.reply(Message::Compared(Box::new(comparison)))
    }

    fn first_path(&self) -> &Path {
        let first = self.paths.first();
        first.map_or(Path::new("."), PathBuf::as_path)
    }

    fn issues(&mut self) -> anyhow::Result<Vec<Issue>> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let states: States = read_states_of(self.first_path())?.unwrap_or_default();
        let mut issues = self.run.issues(store)?;
        states.apply(&mut issues, now_ns());
        Ok(issues)
    }

    fn decide(&mut self, id: &Text, state: DecidedState) -> anyhow::Result<()> {
        let issues = self.issues()?;
        let Some(issue) = issues.iter().find(|issue| issue.fingerprint_id == *id) else {
            anyhow::bail!("the issue no longer exists");
        };
        let user = std::env::var("USER").unwrap_or_else(|_| "unknown".into());
        let decision = Decision {
            state,
            by: user.as_str().into(),
            at_ns: now_ns(),
            reason: None,
        };
        let file = sidecar_of(self.first_path());
        store_decision(&file, &issues, issue, &decision)?;
        let issues = self.issues()?;
        self.reply(Message::Issues(issues))?;
        self.reply(Message::Done(format!("saved in {}", file.display())))
    }

    fn save_plot(
        &self,
        format: PlotFormat,
        part: Option<(i64, i64)>,
        ranks: &[i64],
    ) -> anyhow::Result<()> {
        let Some((_, story)) = &self.report else {
            anyhow::bail!("nothing loaded yet");
        };
        let mut story = story.clone();
        story.keep_ranks(|rank| ranks.contains(&rank));
        if let Some((from, to)) = part {
            story.between(Some(from), Some(to))?;
        }
        let path = super::export::plot(Path::new("."), &story, format)?;
        self.reply(Message::Done(format!("wrote {}", path.display())))
    }
}

/// The id of a session of a run; unlike the index of the run, this id still identifies the run when
/// more runs are found later.
fn session_of(report: &Report, index: usize) -> Option<String> {
    let session = report.runs.get(index)?.sessions.first()?;
    Some(session.session_id.to_str_lossy().into_owned())
}
