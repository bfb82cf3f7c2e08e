//! What a message changes. Pure: what has to be done outside comes back as effects.

use std::path::PathBuf;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stormlog_analysis::issue::DecidedState;

use super::effect::{Effect, ExportFormat, PlotFormat};
use super::keys::{self, Action};
use super::message::Message;
use super::model::{Dialog, Loading, Model, Purpose, Run, SortBy, Tab};
use super::monitor::Limits;
use super::plot::PlotView;
use super::sampler::Target;
use super::view;

/// Lines of a page.
const PAGE: usize = 10;

/// Takes in a message.
pub(crate) fn update(model: &mut Model, message: Message) -> Vec<Effect> {
    match message {
        Message::Key(key) => return key_pressed(model, key),
        Message::Click(column, row) => {
            if let Some(tab) = view::tab_at(column, row) {
                model.tab = tab;
            }
        }
        Message::Wheel(up) => return act(model, if up { Action::Up } else { Action::Down }),
        Message::Resized => {}
        Message::Machine(machine) => model.machine = machine,
        Message::Opened(paths) => begin_opening(model, paths),
        Message::Sessions(rows) => model.sessions = rows,
        Message::Progress(read, total) => model.loading = Loading::Busy(read, total),
        Message::Run(report, story) => {
            model.loading = Loading::Ready;
            model.plot = PlotView::default();
            model.run = Some(Run {
                report: *report,
                story: *story,
                place: 0,
            });
        }
        Message::Shown(place, story) => {
            model.plot = PlotView::default();
            if let Some(run) = &mut model.run {
                run.story = *story;
                run.place = place;
            }
        }
        Message::Issues(issues) => model.issues = Some(issues),
        Message::Compared(comparison) => {
            model.note = None;
            model.comparison = Some(*comparison);
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
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return vec![Effect::Quit];
    }
    if model.help {
        model.help = false;
        return Vec::new();
    }
    if model.dialog.is_some() {
        return type_into_dialog(model, key);
    }
    if key.code == KeyCode::Esc {
        model.note = None;
        model.comparison = None;
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
        Action::NextTab => model.tab = Tab::ALL[(model.tab.place() + 1) % Tab::ALL.len()],
        Action::PreviousTab => {
            model.tab = Tab::ALL[(model.tab.place() + Tab::ALL.len() - 1) % Tab::ALL.len()];
        }
        Action::GoTo(tab) => model.tab = tab,
        Action::Up => move_cursor(model, -1),
        Action::Down => move_cursor(model, 1),
        Action::PageUp => move_cursor(model, -isize::try_from(PAGE).unwrap_or(1)),
        Action::PageDown => move_cursor(model, isize::try_from(PAGE).unwrap_or(1)),
        Action::Open => return open_dialog(model, Purpose::Open),
        Action::Reload if model.paths.is_empty() => {}
        Action::Reload => return vec![Effect::Open(model.paths.clone())],
        Action::Choose => return choose_session(model),
        Action::Filter if model.tab == Tab::Sessions => {
            return open_dialog(model, Purpose::FilterSessions);
        }
        Action::Filter => return open_dialog(model, Purpose::Ranks),
        Action::Sort => {
            let place = SortBy::ALL.iter().position(|by| *by == model.session_sort);
            let next = place.map_or(0, |place| (place + 1) % SortBy::ALL.len());
            model.session_sort = SortBy::ALL[next];
        }
        Action::NextRun => {
            if let Some(run) = model.run.as_ref().filter(|run| run.report.runs.len() > 1) {
                return vec![Effect::ShowRun((run.place + 1) % run.report.runs.len())];
            }
        }
        Action::Compare => return open_dialog(model, Purpose::Compare),
        Action::Resolve => return decide(model, DecidedState::Resolved),
        Action::Ignore => return decide(model, DecidedState::Ignored { until_ns: None }),
        Action::Reopen => return decide(model, DecidedState::Open),
        Action::WatchGpus => return watch(model, "this machine's GPUs", Target::Gpus),
        Action::WatchHost => return watch(model, "this machine's memory", Target::Host),
        Action::WatchProcess => return open_dialog(model, Purpose::Process),
        Action::WatchSink => return watch_sink(model),
        Action::StopWatching => {
            model.monitor.what = None;
            return vec![Effect::StopWatching];
        }
        Action::Limits => return open_dialog(model, Purpose::Limits),
        Action::ExportJson => return export(model, ExportFormat::Json),
        Action::ExportCsv => return export(model, ExportFormat::Csv),
        plot => return act_on_plot(model, plot),
    }
    Vec::new()
}

fn act_on_plot(model: &mut Model, action: Action) -> Vec<Effect> {
    let tracks = shown_tracks(model);
    let Some((place, whole)) = tracks.get(model.plot.track).or(tracks.first()).copied() else {
        return Vec::new();
    };
    let plot = &mut model.plot;
    match action {
        Action::ZoomIn => plot.zoom(whole, 0.5),
        Action::ZoomOut => plot.zoom(whole, 2.0),
        Action::ZoomReset => {
            *plot = PlotView {
                track: plot.track,
                ..PlotView::default()
            }
        }
        Action::PanLeft => plot.pan(whole, -0.25),
        Action::PanRight => plot.pan(whole, 0.25),
        Action::CursorLeft => plot.move_cursor(whole, -1),
        Action::CursorRight => plot.move_cursor(whole, 1),
        Action::NextRank => {
            plot.track = (plot.track + 1) % tracks.len();
            plot.part = None;
            plot.cursor_ns = None;
        }
        Action::NextMark => {
            if let Some(run) = &model.run {
                let rank = run.story.tracks()[place].rank;
                let from = plot.cursor_ns.unwrap_or(i64::MIN);
                let marks = run.story.marks();
                let mine = || {
                    marks
                        .iter()
                        .filter(|mark| mark.rank.is_none_or(|of| of == rank))
                };
                let next = mine()
                    .find(|mark| mark.time_ns > from)
                    .or_else(|| mine().next());
                if let Some(mark) = next {
                    plot.put_cursor(whole, mark.time_ns);
                    model.note = Some((false, mark.label.clone()));
                }
            }
        }
        Action::SavePng => return save_plot(model, PlotFormat::Png),
        Action::SavePage => return save_plot(model, PlotFormat::Html),
        _ => {}
    }
    Vec::new()
}

/// Places of the tracks that the rank filter keeps, each with its whole time.
pub(crate) fn shown_tracks(model: &Model) -> Vec<(usize, (i64, i64))> {
    let Some(run) = &model.run else {
        return Vec::new();
    };
    let tracks = run.story.tracks().iter().enumerate();
    tracks
        .filter(|(_, track)| model.ranks.keeps(track.rank))
        .filter_map(|(place, track)| Some((place, track.first_and_last_ns()?)))
        .collect()
}

fn save_plot(model: &mut Model, format: PlotFormat) -> Vec<Effect> {
    let Some(run) = &model.run else {
        return Vec::new();
    };
    let ranks: Vec<i64> = run
        .story
        .ranks()
        .into_iter()
        .filter(|rank| model.ranks.keeps(*rank))
        .collect();
    model.note = Some((false, "drawing".into()));
    vec![Effect::SavePlot(format, model.plot.part, ranks)]
}

fn move_cursor(model: &mut Model, by: isize) {
    let last = model.lines().saturating_sub(1);
    let cursor = &mut model.cursors[model.tab.place()];
    *cursor = cursor.saturating_add_signed(by).min(last);
}

fn begin_opening(model: &mut Model, paths: Vec<PathBuf>) {
    model.paths = paths;
    model.loading = Loading::Busy(0, 0);
    model.run = None;
    model.issues = None;
    model.comparison = None;
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
        model.note = Some((true, "open a sink first (o), then follow it".into()));
        return Vec::new();
    };
    let what = format!("sink {}", first.display());
    watch(model, &what, Target::Sinks(sinks))
}

fn export(model: &mut Model, format: ExportFormat) -> Vec<Effect> {
    if model.monitor.events.is_empty() {
        model.note = Some((
            true,
            "nothing was watched yet, so there is nothing to export".into(),
        ));
        return Vec::new();
    }
    let events = model.monitor.events.iter().cloned().collect();
    vec![Effect::Export(events, format)]
}

fn open_dialog(model: &mut Model, purpose: Purpose) -> Vec<Effect> {
    let text = match purpose {
        Purpose::Ranks => model.ranks_text.clone(),
        Purpose::FilterSessions => model.session_filter.clone(),
        Purpose::Limits => {
            let limits = model.monitor.limits;
            format!("{} {}", limits.warning, limits.critical)
        }
        _ => String::new(),
    };
    model.dialog = Some(Dialog {
        purpose,
        text: text.clone(),
        is_fresh: true,
        entries: Vec::new(),
        chosen: None,
    });
    if purpose.is_path() {
        vec![Effect::List(text)]
    } else {
        Vec::new()
    }
}

fn type_into_dialog(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    let Some(dialog) = &mut model.dialog else {
        return Vec::new();
    };
    let before = dialog.text.clone();
    match key.code {
        KeyCode::Esc => {
            model.dialog = None;
            return Vec::new();
        }
        KeyCode::Enter => return finish_dialog(model),
        KeyCode::Backspace => {
            dialog.text.pop();
        }
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => dialog.text.clear(),
        KeyCode::Char(character) => {
            if dialog.is_fresh {
                dialog.text.clear();
            }
            dialog.text.push(character);
        }
        KeyCode::Down if !dialog.entries.is_empty() => {
            let next = dialog.chosen.map_or(0, |place| place + 1);
            dialog.chosen = Some(next.min(dialog.entries.len() - 1));
        }
        KeyCode::Up => dialog.chosen = dialog.chosen.and_then(|place| place.checked_sub(1)),
        KeyCode::Tab => complete(dialog),
        _ => {}
    }
    dialog.is_fresh = false;
    let dialog = &model.dialog;
    let Some(dialog) = dialog.as_ref().filter(|dialog| dialog.text != before) else {
        return Vec::new();
    };
    match dialog.purpose {
        // Filtered while it is typed.
        Purpose::FilterSessions => {
            model.session_filter.clone_from(&dialog.text);
            model.cursors[Tab::Sessions.place()] = 0;
            Vec::new()
        }
        purpose if purpose.is_path() => vec![Effect::List(dialog.text.clone())],
        _ => Vec::new(),
    }
}

/// Takes the chosen entry, or the only one, into the text.
fn complete(dialog: &mut Dialog) {
    let place = dialog.chosen.or((!dialog.entries.is_empty()).then_some(0));
    if let Some(entry) = place.and_then(|place| dialog.entries.get(place)) {
        let end = dialog.text.rfind('/').map_or(0, |slash| slash + 1);
        dialog.text.truncate(end);
        dialog.text.push_str(&entry.name);
        if entry.is_folder {
            dialog.text.push('/');
        }
    }
}

fn finish_dialog(model: &mut Model) -> Vec<Effect> {
    let Some(mut dialog) = model.dialog.take() else {
        return Vec::new();
    };
    if dialog.purpose.is_path() && dialog.chosen.is_some() {
        complete(&mut dialog);
    }
    let text = dialog.text.trim().to_owned();
    match dialog.purpose {
        Purpose::Open | Purpose::Compare if text.is_empty() => {}
        Purpose::Open => return vec![Effect::OpenText(text)],
        Purpose::Compare => {
            model.note = Some((false, "comparing".into()));
            return vec![Effect::Compare(text)];
        }
        Purpose::Ranks => match text.parse() {
            Ok(ranks) => {
                model.ranks = ranks;
                model.ranks_text = if text.is_empty() { "all".into() } else { text };
                model.plot = PlotView::default();
                model.cursors[Tab::Diagnostics.place()] = 0;
            }
            Err(reason) => model.note = Some((true, reason)),
        },
        Purpose::Process => match text.parse::<u32>() {
            Ok(pid) => {
                return watch(
                    model,
                    &format!("process {pid} and its children"),
                    Target::Process(pid),
                );
            }
            Err(_) => model.note = Some((true, format!("'{text}' is no process number"))),
        },
        Purpose::Limits => match Limits::parse(&text) {
            Ok(limits) => model.monitor.limits = limits,
            Err(reason) => model.note = Some((true, reason)),
        },
        Purpose::FilterSessions => model.session_filter = text,
    }
    Vec::new()
}
