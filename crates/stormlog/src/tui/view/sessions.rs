//! Draws the sessions tab: the sessions of the opened recordings, sorted and filtered as the user
//! chose.

use ratatui::Frame;
use ratatui::layout::{Constraint, Position, Rect};
use ratatui::widgets::{Paragraph, Row};
use stormlog_format::{Text, human_duration};
use stormlog_report::escape::for_terminal;
use stormlog_report::time;

use super::{below_header, framed, inside, line_at, nothing_yet, safe, table};
use crate::tui::model::Model;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.listed_sessions();
    let mut title = format!(
        "Sessions ({} of {}), by {}",
        rows.len(),
        model.sessions.len(),
        model.session_sort.as_str()
    );
    if !model.session_filter.is_empty() {
        title += ", with '";
        title += &for_terminal(&model.session_filter);
        title.push('\'');
    }
    let inner = framed(model, frame, area, &title);
    if model.sessions.is_empty() {
        frame.render_widget(Paragraph::new(nothing_yet(model)), inner);
        return;
    }
    let is_wide = inner.width >= 100;
    let safe = |text: &Text| safe(&text.to_str_lossy());
    let lines = rows.iter().map(|row| {
        let summary = &row.summary;
        let length = summary
            .ended_at_ns
            .map(|end| end.saturating_sub(summary.started_at_ns));
        Row::new([
            safe(&summary.session_id).chars().take(13).collect(),
            row.effective_status.as_str().to_owned(),
            format!("{}/{}", summary.rank, summary.world_size),
            row.event_count
                .map(|count| count.to_string())
                .unwrap_or_default(),
            start_text(summary.started_at_ns, is_wide),
            length.map(human_duration).unwrap_or_default(),
            summary.job_id.as_ref().map(safe).unwrap_or_default(),
            safe(&summary.host),
        ])
    });
    let columns = [
        ("session", Constraint::Length(13)),
        ("status", Constraint::Length(11)),
        ("rank", Constraint::Length(7)),
        ("events", Constraint::Length(8)),
        ("start", Constraint::Length(if is_wide { 19 } else { 11 })),
        ("lasting", Constraint::Length(if is_wide { 12 } else { 8 })),
        ("job", Constraint::Min(6)),
        ("host", Constraint::Min(6)),
    ];
    table(model, frame, inner, columns, lines, Some(model.cursor()));
}

/// The index of the session whose line is drawn at a position of the mouse; `None` outside the
/// list.
pub(super) fn line_of(model: &Model, area: Rect, position: Position) -> Option<usize> {
    let list = below_header(inside(area));
    line_at(list, position, model.cursor(), model.lines())
}

/// Formats the start of a session: to the second, or in a narrow window to the minute and without
/// the year.
fn start_text(at_ns: i64, is_wide: bool) -> String {
    let text = time::moment(at_ns);
    let (from, to) = if is_wide { (0, 19) } else { (5, 16) };
    text.chars().take(to).skip(from).collect()
}
