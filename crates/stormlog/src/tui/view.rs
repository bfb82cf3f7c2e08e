//! Draws the model of the terminal UI. Drawing the screen never changes the model.

mod diagnostics;
mod help;
mod issues;
mod monitoring;
mod overview;
mod recent;
mod sessions;
mod ticks;
mod timeline;
mod visualizations;

use std::path::PathBuf;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::style::{Modifier, Styled};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table};
use stormlog_report::bytes;
use stormlog_report::escape::for_terminal;

use super::keys;
use super::model::{Dialog, Loading, Model, Tab};

/// The smallest window, in columns and rows, in which the interface can be drawn.
const LEAST: (u16, u16) = (40, 12);

/// Draws the whole screen: the tab names, the current tab, the status line, and an open dialog or
/// the help screen.
pub(crate) fn draw(model: &Model, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "terminal too small: at least {columns}x{rows} needed",
            columns = LEAST.0,
            rows = LEAST.1
        );
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let [top, body, bottom] = parts(area);
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

/// Splits the screen into tab names, tab content and status line.
fn parts(area: Rect) -> [Rect; 3] {
    let rows = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    Layout::vertical(rows).areas(area)
}

fn tabs(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let text = format!(" {} {}", index + 1, tab.as_str());
        let style = if tab == model.tab {
            model.palette.heading().add_modifier(Modifier::REVERSED)
        } else {
            model.palette.muted()
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// The clickable thing that is drawn at the position of the mouse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hit {
    /// The name of this tab in the first row of the screen.
    Tab(Tab),
    /// A line in the list of the current tab, with its index.
    Line(usize),
    /// A line in the table of ranks, with its index.
    Rank(usize),
    /// A position on the plot, as a share of its width from 0 (left) to 1 (right).
    Plot(f64),
    /// An entry of the folder that a dialog lists, with its index.
    Entry(usize),
}

/// Finds out what is drawn at a column and a row of the screen. The positions of clickable things
/// are computed from the same layouts that are used for drawing.
pub(crate) fn hit(model: &Model, column: u16, row: u16) -> Option<Hit> {
    if model.help {
        return None;
    }
    let position = Position::new(column, row);
    let [_, body, _] = parts(Rect::new(0, 0, model.size.0, model.size.1));
    if let Some(dialog) = &model.dialog {
        let list = inside(dialog_area(dialog, body));
        let index = line_at(below_header(list), position, 0, usize::from(list.height))?;
        let index = index + dialog_first(dialog, body);
        return (index < dialog.entries.len()).then_some(Hit::Entry(index));
    }
    if row == 0 {
        return tab_at(column).map(Hit::Tab);
    }
    match model.tab {
        Tab::Overview => overview::line_of(model, body, position).map(Hit::Line),
        Tab::Monitoring => monitoring::lane_at(model, body, position).map(Hit::Line),
        Tab::Visualizations => {
            let dots = visualizations::dots_area(model, body)?;
            let inside = dots.contains(position);
            let share = f64::from(column.saturating_sub(dots.x)) / f64::from(dots.width.max(1));
            inside.then_some(Hit::Plot(share))
        }
        Tab::Diagnostics => diagnostics::hit(model, body, position),
        Tab::Issues => issues::line_of(model, body, position).map(Hit::Line),
        Tab::Sessions => sessions::line_of(model, body, position).map(Hit::Line),
    }
}

fn tab_at(column: u16) -> Option<Tab> {
    let mut end = 0;
    Tab::ALL.into_iter().find(|tab| {
        // The width of a tab's title: the name, the tab's number and the spaces before them.
        end += tab.as_str().len() + 3;
        usize::from(column) < end
    })
}

/// The index of the line at a position in a list that is scrolled so that the selected line is
/// visible.
fn line_at(list: Rect, position: Position, chosen: usize, count: usize) -> Option<usize> {
    let row = list.contains(position).then(|| position.y - list.y)?;
    let chosen = chosen.min(count.saturating_sub(1));
    let index = first_line(chosen, usize::from(list.height).max(1)) + usize::from(row);
    (index < count).then_some(index)
}

/// The area inside the border of a frame.
fn inside(area: Rect) -> Rect {
    area.inner(Margin::new(1, 1))
}

/// The area without its first row, which is the header of a table.
fn below_header(area: Rect) -> Rect {
    Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    }
}

/// The status line: the progress of loading, the result of the last action, and the keys of the
/// tab.
fn status(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    if model.is_busy() {
        spans.push(Span::styled(spinner(model.now_ns), model.palette.heading()));
    }
    if model.loading == Loading::Looking {
        let text = "analyzing  ";
        spans.push(Span::styled(text, model.palette.heading()));
    }
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
        spans.push(Span::styled(format!("{}  ", for_terminal(text)), style));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let room = usize::from(model.size.0).saturating_sub(used);
    spans.push(Span::styled(
        keys::footer(model.tab, room, model.lines() > 0),
        model.palette.muted(),
    ));
    Line::from(spans)
}

/// The symbol in the status line while work is in progress, which changes with the time.
fn spinner(now_ns: i64) -> &'static str {
    const STATES: [&str; 8] = ["⣾ ", "⣽ ", "⣻ ", "⢿ ", "⡿ ", "⣟ ", "⣯ ", "⣷ "];
    let index = usize::try_from(now_ns / 33_000_000).unwrap_or(0);
    STATES[index % STATES.len()]
}

/// How many folder entries a dialog shows: all of them, or as many as the screen has rows for.
fn dialog_room(dialog: &Dialog, body: Rect) -> usize {
    let room = usize::from(body.height).saturating_sub(5);
    dialog.entries.len().min(room)
}

fn dialog_area(dialog: &Dialog, body: Rect) -> Rect {
    let height = 3 + u16::try_from(dialog_room(dialog, body)).unwrap_or(0);
    let width = body.width.saturating_sub(6).min(90);
    Rect::new(body.x + 3, body.y + 1, width, height.min(body.height - 1))
}

/// The index of the first folder entry that a dialog shows; above 0 if the list is scrolled down to
/// the selected entry.
fn dialog_first(dialog: &Dialog, body: Rect) -> usize {
    let listed = dialog_room(dialog, body);
    dialog
        .chosen
        .map_or(0, |chosen| (chosen + 1).saturating_sub(listed))
}

fn draw_dialog(model: &Model, dialog: &Dialog, frame: &mut Frame<'_>, body: Rect) {
    let area = dialog_area(dialog, body);
    frame.render_widget(Clear, area);
    let mut lines = vec![Line::from(format!("> {}_", for_terminal(&dialog.text)))];
    let (first, listed) = (dialog_first(dialog, body), dialog_room(dialog, body));
    for (index, entry) in dialog.entries.iter().enumerate().skip(first).take(listed) {
        let slash = if entry.is_folder { "/" } else { "" };
        let line = Line::from(format!("  {}{slash}", for_terminal(&entry.name)));
        lines.push(if dialog.chosen == Some(index) {
            line.style(model.palette.selected())
        } else {
            line
        });
    }
    let block = Block::bordered().title(dialog.purpose.title());
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Draws a frame with a title; returns the area inside it.
fn framed(model: &Model, frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let title = Span::styled(format!(" {title} "), model.palette.heading());
    let block = Block::bordered()
        .title(title)
        .border_style(model.palette.muted());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// Draws a table with a header. The table is scrolled so that its selected row, which is
/// highlighted, is visible.
fn table<'a, const N: usize>(
    model: &Model,
    frame: &mut Frame<'_>,
    area: Rect,
    columns: [(&'a str, Constraint); N],
    rows: impl Iterator<Item = Row<'a>>,
    chosen: Option<usize>,
) {
    let room = usize::from(area.height).saturating_sub(1).max(1);
    let first = first_line(chosen.unwrap_or(0), room);
    let rows = rows.enumerate().skip(first).take(room);
    let rows = rows.map(|(index, row)| {
        if chosen == Some(index) {
            let style = Styled::style(&row).patch(model.palette.selected());
            row.style(style)
        } else {
            row
        }
    });
    let header = Row::new(columns.map(|(name, _)| name)).style(model.palette.muted());
    let widths = columns.map(|(_, width)| width);
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

/// A text that may come from a recording, with its control characters escaped.
fn safe(text: &str) -> String {
    for_terminal(text).into_owned()
}

/// The first of the given paths, and the number of the others.
fn first_path(paths: &[PathBuf]) -> String {
    match paths {
        [] => String::new(),
        [path] => path.display().to_string(),
        [path, rest @ ..] => format!("{} and {} more", path.display(), rest.len()),
    }
}

/// The text that is shown while no run is loaded.
fn nothing_yet(model: &Model) -> &'static str {
    if model.is_busy() {
        "loading: the run is shown when all events are read"
    } else if model.offered().is_empty() {
        "nothing open: press o and enter a path"
    } else {
        "nothing open: select a run below and press Enter, or press o and enter a path"
    }
}

/// The index of the first line to show, so that the selected line is visible.
fn first_line(chosen: usize, room: usize) -> usize {
    (chosen + 1).saturating_sub(room)
}
