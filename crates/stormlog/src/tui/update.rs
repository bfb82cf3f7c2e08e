//! Applies messages to the model. The update is a pure function: work that needs files, clocks or
//! threads is returned as effects.

mod dialog;
mod plot;

use std::path::PathBuf;
use std::sync::Arc;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stormlog_analysis::issue::DecidedState;

use super::effect::Effect;
use super::keys::{self, Action};
use super::message::{Fresh, Message};
use super::model::{Loading, Model, Pane, Purpose, SortBy, Tab};
use super::plot::PlotView;
use super::run::OpenedRun;
use super::sampler::Target;
use super::view::{self, Hit};
use crate::export::EventFormat;
pub(crate) use plot::{chosen_track, shown_tracks};

/// If the live view shows a sink, the description of its target starts with this prefix.
const SINK: &str = "sink ";
/// By how many lines the keys Page Up and Page Down move the selection.
const PAGE: isize = 10;

/// Changes the model as a message requires, and returns the work that is now to be done outside the
/// model, such as loading a path.
pub(crate) fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::Key(key) => return key_pressed(model, key),
        Message::Click(column, row) => return clicked(model, column, row),
        Message::Drag(column, row) => {
            if let Some(Hit::Plot(share)) = view::hit(model, column, row) {
                plot::point(model, share);
            }
        }
        Message::Wheel(up, column, row) => return wheel_turned(model, up, column, row),
        Message::Resized(width, height) => model.size = (width, height),
        Message::Machine(machine) => model.machine = machine,
        Message::Opened(paths) => begin_opening(model, paths),
        Message::Sessions(rows) => model.sessions = rows,
        Message::Outline(outline) => model.outline = Some(outline),
        Message::Progress(read, total) => model.loading = Loading::Busy(read, total),
        Message::Looking => model.loading = Loading::Looking,
        Message::Run(report, story) => {
            model.loading = Loading::Ready;
            model.run = Some(OpenedRun::new(report, 0, *story));
            begin_run(model);
        }
        Message::Live => {
            model.live_ns = Some(model.now_ns);
            // The live view changes to the sink of the opened run, unless it shows a GPU or a
            // process.
            let what = model.monitor.what.as_deref();
            if what.is_none_or(|what| what.starts_with(SINK)) {
                return watch_sink(model);
            }
        }
        Message::Refreshed(fresh) => refresh(model, *fresh),
        Message::Recent(runs) => model.recent = Some(runs),
        Message::Shown(index, story) => {
            if let Some(run) = &mut model.run {
                *run = OpenedRun::new(Arc::clone(&run.report), index, *story);
            }
            begin_run(model);
        }
        Message::Issues(issues) => model.issues = Some(issues),
        Message::Compared(comparison) => {
            model.note = None;
            model.comparison = Some(*comparison);
            show_pane(model, Pane::Comparison);
        }
        Message::Listed(text, entries) => {
            if let Some(dialog) = &mut model.dialog
                && dialog.purpose.is_path()
                && dialog.text == text
            {
                dialog.entries = entries;
                dialog.chosen = None;
            }
        }
        Message::Watched(events) => model.monitor.take(events),
        Message::WatchFailed(reason) => model.monitor.failure = Some(reason),
        Message::Done(text) => model.note = Some((false, text)),
        Message::NotDone(text) => model.note = Some((true, text)),
        Message::Failed(text) => {
            if model.is_busy() {
                model.loading = Loading::Idle;
            }
            model.note = Some((true, text));
        }
    }
    Vec::new()
}

fn key_pressed(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    // When the user presses Esc and quickly another key, terminals report the second key with Alt.
    // No key binding uses Alt, so a key with Alt is handled as Esc followed by that key.
    if key.modifiers.contains(KeyModifiers::ALT) {
        let mut effects = key_pressed(model, KeyEvent::from(KeyCode::Esc));
        let modifiers = key.modifiers - KeyModifiers::ALT;
        effects.extend(key_pressed(model, KeyEvent::new(key.code, modifiers)));
        return effects;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    if model.help {
        model.help = false;
        return Vec::new();
    }
    if model.dialog.is_some() {
        return dialog::type_into(model, key);
    }
    if key.code == KeyCode::Esc {
        model.note = None;
        show_pane(model, Pane::Findings);
        return Vec::new();
    }
    match keys::action(key, model.tab) {
        Some(action) => act(model, action),
        None => Vec::new(),
    }
}

fn act(model: &mut Model, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit => return vec![Effect::Quit],
        Action::Help => model.help = true,
        Action::NextTab => model.tab = Tab::ALL[(model.tab.index() + 1) % Tab::ALL.len()],
        Action::PreviousTab => {
            model.tab = Tab::ALL[(model.tab.index() + Tab::ALL.len() - 1) % Tab::ALL.len()];
        }
        Action::GoTo(tab) => model.tab = tab,
        Action::Up => move_cursor(model, -1),
        Action::Down => move_cursor(model, 1),
        Action::PageUp => move_cursor(model, -PAGE),
        Action::PageDown => move_cursor(model, PAGE),
        Action::Open => return dialog::open(model, Purpose::Open),
        Action::Reload if model.paths.is_empty() => return vec![Effect::ListRuns],
        Action::Reload => return vec![Effect::Open(model.paths.clone())],
        Action::Choose if model.tab == Tab::Overview => return open_offered(model),
        Action::Choose if model.tab == Tab::Diagnostics => show_on_timeline(model),
        Action::Choose => return choose_session(model),
        Action::Filter if model.tab == Tab::Sessions => {
            return dialog::open(model, Purpose::FilterSessions);
        }
        Action::Filter => return dialog::open(model, Purpose::Ranks),
        Action::Sort => {
            let index = SortBy::ALL.iter().position(|by| *by == model.session_sort);
            let next = index.map_or(0, |index| (index + 1) % SortBy::ALL.len());
            model.session_sort = SortBy::ALL[next];
        }
        Action::NextRun => {
            if let Some(run) = model.run.as_ref().filter(|run| run.report.runs.len() > 1) {
                return vec![Effect::ShowRun((run.index + 1) % run.report.runs.len())];
            }
        }
        Action::NextPane => {
            let next = match model.pane {
                Pane::Findings => Pane::Phases,
                Pane::Phases if model.comparison.is_some() => Pane::Comparison,
                Pane::Phases | Pane::Comparison => Pane::Findings,
            };
            show_pane(model, next);
        }
        Action::RankUp => move_rank(model, -1),
        Action::RankDown => move_rank(model, 1),
        Action::Compare => return dialog::open(model, Purpose::Compare),
        Action::Resolve => return decide(model, DecidedState::Resolved),
        Action::Ignore => return decide(model, DecidedState::Ignored { until_ns: None }),
        Action::Reopen => return decide(model, DecidedState::Open),
        Action::WatchGpus => return watch(model, "this machine's GPUs", Target::Gpus),
        Action::WatchHost => return watch(model, "this machine's memory", Target::Host),
        Action::WatchProcess => return dialog::open(model, Purpose::Process),
        Action::WatchSink => return watch_sink(model),
        Action::StopWatching => {
            model.monitor.what = None;
            return vec![Effect::StopWatching];
        }
        Action::Limits => return dialog::open(model, Purpose::Limits),
        Action::ExportJson => return export(model, EventFormat::Json),
        Action::ExportCsv => return export(model, EventFormat::Csv),
        other => return plot::act(model, other),
    }
    Vec::new()
}

fn move_cursor(model: &mut Model, by: isize) {
    let last = model.lines().saturating_sub(1);
    let cursor = &mut model.cursors[model.tab.index()];
    *cursor = cursor.saturating_add_signed(by).min(last);
}

fn move_rank(model: &mut Model, by: isize) {
    let last = model.shown_ranks().len().saturating_sub(1);
    model.rank_cursor = model.rank_cursor.saturating_add_signed(by).min(last);
}

fn show_pane(model: &mut Model, pane: Pane) {
    if model.pane != pane {
        model.pane = pane;
        model.cursors[Tab::Diagnostics.index()] = 0;
    }
}

/// Shows the selected finding at its onset on the timeline, or the selected rank if no finding is
/// selected.
fn show_on_timeline(model: &mut Model) {
    let findings = model.shown_findings();
    let finding = findings
        .get(model.cursor())
        .filter(|_| model.pane == Pane::Findings);
    let (rank, onset) = if let Some(finding) = finding {
        (finding.rank.map(i64::from), finding.onset_ns)
    } else {
        let ranks = model.shown_ranks();
        (ranks.get(model.rank_cursor).map(|line| line.rank), None)
    };
    plot::show(model, rank, onset);
    model.tab = Tab::Visualizations;
}

fn clicked(model: &mut Model, column: u16, row: u16) -> Vec<Effect> {
    if model.help {
        model.help = false;
        return Vec::new();
    }
    match view::hit(model, column, row) {
        Some(Hit::Tab(tab)) if model.dialog.is_none() => model.tab = tab,
        Some(Hit::Line(index)) => {
            let is_chosen = model.cursor() == index;
            model.cursors[model.tab.index()] = index;
            // A click on a line that is already selected opens the line's run, session or finding.
            let opens = matches!(model.tab, Tab::Overview | Tab::Sessions | Tab::Diagnostics);
            if is_chosen && opens {
                return act(model, Action::Choose);
            }
        }
        Some(Hit::Rank(index)) => model.rank_cursor = index,
        Some(Hit::Plot(share)) => plot::point(model, share),
        Some(Hit::Entry(index)) => return dialog::choose(model, index),
        Some(Hit::Tab(_)) | None => {}
    }
    Vec::new()
}

fn wheel_turned(model: &mut Model, up: bool, column: u16, row: u16) -> Vec<Effect> {
    match view::hit(model, column, row) {
        Some(Hit::Plot(share)) => plot::zoom_at(model, share, if up { 0.8 } else { 1.25 }),
        Some(Hit::Rank(_)) => move_rank(model, if up { -1 } else { 1 }),
        _ if model.dialog.is_some() || model.help => {}
        _ => return act(model, if up { Action::Up } else { Action::Down }),
    }
    Vec::new()
}

/// Resets the plot and the selected lines after another run was loaded or chosen, and selects the
/// track of the most severe finding for the plot.
fn begin_run(model: &mut Model) {
    model.plot = PlotView::default();
    model.outline = None;
    model.rank_cursor = 0;
    model.cursors[Tab::Diagnostics.index()] = 0;
    let track = model.run.as_ref().and_then(OpenedRun::main_track);
    let shown = shown_tracks(model);
    let index = shown.iter().position(|(index, _)| Some(*index) == track);
    model.plot.track = index.unwrap_or(0);
}

/// Updates the shown run after new events were recorded, and keeps the selected lines.
fn refresh(model: &mut Model, fresh: Fresh) {
    let names = |model: &Model| -> Vec<(String, i64, i64)> {
        let tracks = model.run.as_ref().map_or(&[][..], |run| run.story.tracks());
        let shown = shown_tracks(model).into_iter();
        shown
            .map(|(index, _)| &tracks[index])
            .map(|track| (track.session_id.clone(), track.rank, track.device_id))
            .collect()
    };
    let chosen = names(model).into_iter().nth(model.plot.track);
    model.run = Some(OpenedRun::new(fresh.report, 0, fresh.story));
    let index = names(model)
        .into_iter()
        .position(|name| Some(name) == chosen);
    model.plot.track = index.unwrap_or(0);
    model.sessions = fresh.rows;
    model.issues = Some(fresh.issues);
    model.live_ns = fresh.is_live.then_some(fresh.at_ns);
    move_cursor(model, 0);
    move_rank(model, 0);
}

fn open_offered(model: &Model) -> Vec<Effect> {
    let run = model.offered().get(model.cursor());
    run.map(|run| Effect::Open(run.paths.clone()))
        .into_iter()
        .collect()
}

fn begin_opening(model: &mut Model, paths: Vec<PathBuf>) {
    model.paths = paths;
    model.live_ns = None;
    model.loading = Loading::Busy(0, 0);
    model.outline = None;
    model.run = None;
    model.issues = None;
    model.comparison = None;
    model.pane = Pane::Findings;
    model.rank_cursor = 0;
    model.sessions = Vec::new();
    model.cursors = [0; 6];
    model.note = None;
}

fn choose_session(model: &mut Model) -> Vec<Effect> {
    let rows = model.listed_sessions();
    let Some(row) = rows.get(model.cursor()) else {
        return Vec::new();
    };
    let id = row.summary.session_id.to_str_lossy().into_owned();
    model.tab = Tab::Diagnostics;
    vec![Effect::OpenSession(id)]
}

fn decide(model: &mut Model, state: DecidedState) -> Vec<Effect> {
    let issues = model.issues.as_deref().unwrap_or_default();
    match issues.get(model.cursor()) {
        Some(issue) => vec![Effect::Decide(issue.fingerprint_id.clone(), state)],
        None => Vec::new(),
    }
}

fn watch(model: &mut Model, what: &str, target: Target) -> Vec<Effect> {
    model.monitor.begin(what.to_owned());
    vec![Effect::Watch(target)]
}

fn watch_sink(model: &mut Model) -> Vec<Effect> {
    let sinks: Vec<PathBuf> = model.paths.clone();
    let Some(first) = sinks.first() else {
        model.note = Some((true, "open a recording first (o)".into()));
        return Vec::new();
    };
    let what = format!("{SINK}{}", first.display());
    watch(model, &what, Target::Sinks(sinks))
}

fn export(model: &mut Model, format: EventFormat) -> Vec<Effect> {
    if model.monitor.events.is_empty() {
        model.note = Some((
            true,
            "nothing recorded yet; first start watching with g, h, p or s".into(),
        ));
        return Vec::new();
    }
    let events = model.monitor.events.iter().cloned().collect();
    vec![Effect::Export(events, format)]
}
