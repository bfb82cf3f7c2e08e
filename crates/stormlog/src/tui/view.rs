//! Draws the model. Reads only: nothing here changes anything.

mod diagnostics;
mod help;
mod issues;
mod monitoring;
mod overview;
mod sessions;
mod timeline;
mod visualizations;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use stormlog_report::bytes;
use stormlog_report::escape::for_terminal;

use super::model::{Dialog, Loading, Model, Tab};

/// The least that the interface can be drawn in.
const LEAST: (u16, u16) = (40, 12);

/// Draws everything.
pub(crate) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("at least {}x{} are needed", LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let rows = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [top, body, bottom] = Layout::vertical(rows).areas(area);
    frame.render_widget(Paragraph::new(tabs(model)), top);
    match model.tab {
        Tab::Overview => overview::draw(model, frame, body),
        Tab::Monitoring => monitoring::draw(model, frame, body),
        Tab::Visualizations => visualizations::draw(model, frame, body),
        Tab::Diagnostics => diagnostics::draw(model, frame, body),
        Tab::Issues => issues::draw(model, frame, body),
        Tab::Sessions => sessions::draw(model, frame, body),
    }
    frame.render_widget(Paragraph::new(status(model)), bottom);
    if let Some(dialog) = &model.dialog {
        draw_dialog(model, dialog, frame, body);
    }
    if model.help {
        help::draw(model, frame, body);
    }
}

fn tabs(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (place, tab) in Tab::ALL.into_iter().enumerate() {
        let text = format!(" {} {}", place + 1, tab.name());
        let style = if tab == model.tab {
            model.palette.heading().add_modifier(Modifier::REVERSED)
        } else {
            model.palette.muted()
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// The tab whose name is at a place on the screen.
pub(crate) fn tab_at(column: u16, row: u16) -> Option<Tab> {
    if row != 0 {
        return None;
    }
    let mut end = 0;
    Tab::ALL.into_iter().find(|tab| {
        // The name, its number and the blanks before them.
        end += tab.name().len() + 3;
        usize::from(column) < end
    })
}

/// The last line: how far loading is, what was done last, and where help is.
fn status(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    if let Loading::Busy(read, total) = model.loading {
        let size = |bytes: u64| bytes::human(i64::try_from(bytes).unwrap_or(i64::MAX));
        let text = match read
            .checked_mul(100)
            .and_then(|read| read.checked_div(total))
        {
            Some(percent) => format!("loading {} of {} ({percent} %)  ", size(read), size(total)),
            None => "loading  ".to_owned(),
        };
        spans.push(Span::styled(text, model.palette.heading()));
    }
    if let Some((is_error, text)) = &model.note {
        let style = if *is_error {
            model.palette.severity("critical")
        } else {
            model.palette.good()
        };
        let text = for_terminal(text).into_owned();
        spans.push(Span::styled(format!("{text}  "), style));
    }
    spans.push(Span::styled(
        "? help  Tab next  o open  q leave",
        model.palette.muted(),
    ));
    Line::from(spans)
}

fn draw_dialog(model: &Model, dialog: &Dialog, frame: &mut Frame<'_>, body: Rect) {
    let listed = dialog
        .entries
        .len()
        .min(usize::from(body.height).saturating_sub(5));
    let height = 3 + u16::try_from(listed).unwrap_or(0);
    let width = body.width.saturating_sub(6).min(90);
    let area = Rect::new(body.x + 3, body.y + 1, width, height.min(body.height - 1));
    frame.render_widget(Clear, area);
    let mut lines = vec![Line::from(format!("> {}_", for_terminal(&dialog.text)))];
    let first = dialog
        .chosen
        .map_or(0, |chosen| (chosen + 1).saturating_sub(listed));
    for (place, entry) in dialog.entries.iter().enumerate().skip(first).take(listed) {
        let slash = if entry.is_folder { "/" } else { "" };
        let line = Line::from(format!("  {}{slash}", for_terminal(&entry.name)));
        lines.push(if dialog.chosen == Some(place) {
            line.style(model.palette.selected())
        } else {
            line
        });
    }
    let block = Block::bordered().title(dialog.purpose.title());
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A frame with a title; what it leaves inside.
fn framed(model: &Model, frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let title = Span::styled(format!(" {title} "), model.palette.heading());
    let block = Block::bordered()
        .title(title)
        .border_style(model.palette.muted());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// What there is to say when nothing is loaded.
fn nothing_yet(model: &Model) -> &'static str {
    if model.is_busy() {
        "loading; this part comes when everything is read"
    } else {
        "nothing is open: press o and give a path"
    }
}

/// The first line to show so that the chosen one can be seen.
fn first_line(chosen: usize, room: usize) -> usize {
    (chosen + 1).saturating_sub(room)
}
