//! Draws the list of recent runs when the terminal UI was started without a path.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Paragraph, Row, Wrap};
use stormlog_format::human_duration;
use stormlog_report::time;

use super::{first_path, framed, safe, table};
use crate::tui::model::Model;
use crate::tui::recent::{FOLDER, Recent};

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let runs = model.offered();
    let inner = framed(model, frame, area, &format!("Recent runs ({})", runs.len()));
    if runs.is_empty() {
        let text = match &model.recent {
            None => "looking for runs".to_owned(),
            Some(_) => format!(
                "no runs in ./{FOLDER} and none in this folder: record one with \
                 'stormlog run -- python train.py', or press o and enter a path"
            ),
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), inner);
        return;
    }
    let chosen = model.cursor().min(runs.len() - 1);
    let columns = [
        ("run", Constraint::Min(24)),
        ("start", Constraint::Length(19)),
        ("lasting", Constraint::Length(12)),
        ("status", Constraint::Length(11)),
        ("ranks", Constraint::Length(5)),
    ];
    let rows = runs.iter().map(|run| row(run));
    table(model, frame, inner, columns, rows, Some(chosen));
}

fn row(run: &Recent) -> Row<'static> {
    let unknown = || "?".to_owned();
    let start = run.started_ns.map(time::moment);
    let start = start.map(|text| text.chars().take(19).collect());
    Row::new([
        safe(&first_path(&run.paths)),
        start.unwrap_or_else(unknown),
        run.lasted_ns.map(human_duration).unwrap_or_default(),
        run.status.to_owned(),
        if run.ranks > 0 {
            run.ranks.to_string()
        } else {
            unknown()
        },
    ])
}
