//! Handles keys and mouse events in a dialog, in which the user types a line.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::watch;
use crate::tui::effect::Effect;
use crate::tui::model::{Dialog, Model, Purpose, Tab};
use crate::tui::monitor::Limits;
use crate::tui::plot::PlotView;
use crate::tui::sampler::Target;

pub(super) fn open(model: &mut Model, purpose: Purpose) -> Vec<Effect> {
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

pub(super) fn type_into(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    let Some(dialog) = &mut model.dialog else {
        return Vec::new();
    };
    let before = dialog.text.clone();
    match key.code {
        KeyCode::Esc => {
            if dialog.purpose == Purpose::FilterSessions {
                model.session_filter.clear();
            }
            model.dialog = None;
            return Vec::new();
        }
        KeyCode::Enter => return finish(model),
        KeyCode::Backspace => {
            dialog.text.pop();
        }
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => dialog.text.clear(),
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => {}
        KeyCode::Char(character) => {
            if dialog.is_fresh {
                dialog.text.clear();
            }
            dialog.text.push(character);
        }
        KeyCode::Down if !dialog.entries.is_empty() => {
            let next = dialog.chosen.map_or(0, |index| index + 1);
            dialog.chosen = Some(next.min(dialog.entries.len() - 1));
        }
        KeyCode::Up => dialog.chosen = dialog.chosen.and_then(|index| index.checked_sub(1)),
        KeyCode::Tab => complete(dialog),
        _ => {}
    }
    dialog.is_fresh = false;
    let dialog = &model.dialog;
    let Some(dialog) = dialog.as_ref().filter(|dialog| dialog.text != before) else {
        return Vec::new();
    };
    match dialog.purpose {
        // The list of sessions is filtered while the user types.
        Purpose::FilterSessions => {
            model.session_filter.clone_from(&dialog.text);
            model.cursors[Tab::Sessions.index()] = 0;
            Vec::new()
        }
        purpose if purpose.is_path() => vec![Effect::List(dialog.text.clone())],
        _ => Vec::new(),
    }
}

/// Completes the typed path with the folder entry that was clicked; `index` is its index in the
/// list of the dialog.
pub(super) fn choose(model: &mut Model, index: usize) -> Vec<Effect> {
    let Some(dialog) = &mut model.dialog else {
        return Vec::new();
    };
    dialog.chosen = Some(index);
    dialog.is_fresh = false;
    complete(dialog);
    vec![Effect::List(dialog.text.clone())]
}

/// Replaces the typed text by the selected entry, or by the first one if none is selected.
fn complete(dialog: &mut Dialog) {
    let index = dialog.chosen.or((!dialog.entries.is_empty()).then_some(0));
    if let Some(entry) = index.and_then(|index| dialog.entries.get(index)) {
        let end = dialog.text.rfind('/').map_or(0, |slash| slash + 1);
        dialog.text.truncate(end);
        dialog.text.push_str(&entry.name);
        if entry.is_folder {
            dialog.text.push('/');
        }
    }
}

fn finish(model: &mut Model) -> Vec<Effect> {
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
                model.cursors[Tab::Diagnostics.index()] = 0;
                model.rank_cursor = 0;
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
            Err(_) => model.note = Some((true, format!("'{text}' is not a pid"))),
        },
        Purpose::Limits => match Limits::parse(&text) {
            Ok(limits) => model.monitor.limits = limits,
            Err(reason) => model.note = Some((true, reason)),
        },
        Purpose::FilterSessions => model.session_filter = text,
    }
    Vec::new()
}
