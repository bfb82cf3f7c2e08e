//! Draws the list of recent runs when the terminal UI was started without a path.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Paragraph, Row, Table, Wrap};
use stormlog_report::escape::for_terminal;
use stormlog_report::time;

use super::{first_line, framed};
use crate::tui::model::Model;
use crate::tui::recent::{FOLDER, Recent};

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let runs = model.offered();
    let inner = framed(model, frame, area, &format!("Recent runs ({})", runs.len()));
    if runs.is_empty() {
        let text = match &model.recent {
            None => "looking for runs".to_owned(),
            Some(_) => format!(
                "no runs in ./{FOLDER} and none here: record one with \
                 'stormlog run -- python train.py', or press o and enter a path"
            ),
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), inner);
        return;
    }
    let chosen = model.cursor().min(runs.len() - 1);
    let room = usize::from(inner.height).saturating_sub(1).max(1);
    let lines = runs.iter().enumerate();
    let table = lines
        .skip(first_line(chosen, room))
        .take(room)
        .map(|(index, run)| {
            let line = row(run);
            if index == chosen {
                line.style(model.palette.selected())
            } else {
                line
            }
        });
    let widths = [
        Constraint::Min(24),
        Constraint::Length(19),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Length(5),
    ];
    let header = Row::new(["run", "start", "lasting", "status", "ranks"]);
    let header = header.style(model.palette.muted());
    frame.render_widget(Table::new(table, widths).header(header), inner);
}

fn row(run: &Recent) -> Row<'static> {
    let unknown = || "?".to_owned();
    let start = run.started_ns.map(time::moment);
    let start = start.map(|text| text.chars().take(19).collect());
    Row::new([
        for_terminal(&run.path.to_string_lossy()).into_owned(),
        start.unwrap_or_else(unknown),
        run.lasted_ns.map(time::span).unwrap_or_default(),
        run.status
            .map_or_else(|| "packed".to_owned(), |status| status.as_str().to_owned()),
        if run.ranks > 0 {
            run.ranks.to_string()
        } else {
            unknown()
        },
    ])
}
