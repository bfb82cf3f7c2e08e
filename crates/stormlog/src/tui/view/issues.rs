//! Draws the table of issues and the details of the selected issue.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Wrap};
use stormlog_analysis::issue::Issue;
use stormlog_format::{Text, counted};
use stormlog_report::level_word;
use stormlog_report::time;

use super::{below_header, framed, inside, line_at, nothing_yet, safe, table};
use crate::tui::model::Model;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let [upper, lower] = halves(area);
    let title = match &model.issues {
        Some(issues) => format!("Issues ({}): r resolve, i ignore, e reopen", issues.len()),
        None => "Issues".to_owned(),
    };
    let inner = framed(model, frame, upper, &title);
    let Some(issues) = &model.issues else {
        frame.render_widget(Paragraph::new(nothing_yet(model)), inner);
        framed(model, frame, lower, "Evidence");
        return;
    };
    if issues.is_empty() {
        frame.render_widget(Paragraph::new("no issues"), inner);
        framed(model, frame, lower, "Evidence");
        return;
    }
    let chosen = model.cursor().min(issues.len() - 1);
    let columns = [
        ("state", Constraint::Length(10)),
        ("level", Constraint::Length(9)),
        ("hits", Constraint::Length(6)),
        ("what", Constraint::Min(20)),
    ];
    let rows = issues.iter().map(|issue| {
        let row = Row::new([
            issue.state.to_owned(),
            safe(level_word(&issue.severity.to_str_lossy())),
            issue.hit_count().to_string(),
            safe(&issue.title.to_str_lossy()),
        ]);
        row.style(model.palette.severity(&issue.severity.to_str_lossy()))
    });
    table(model, frame, inner, columns, rows, Some(chosen));
    let inner = framed(model, frame, lower, "Evidence");
    let text = Paragraph::new(detail(model, &issues[chosen])).wrap(Wrap { trim: true });
    frame.render_widget(text, inner);
}

fn halves(area: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(area)
}

/// The index of the issue whose line is drawn at a position of the mouse; `None` outside the table.
pub(super) fn line_of(model: &Model, area: Rect, position: Position) -> Option<usize> {
    let list = below_header(inside(halves(area)[0]));
    let count = model.issues.as_ref().map_or(0, Vec::len);
    line_at(list, position, model.cursor(), count)
}

fn detail(model: &Model, issue: &Issue) -> Vec<Line<'static>> {
    let safe = |text: &Text| safe(&text.to_str_lossy());
    let mut lines = vec![
        Line::styled(safe(&issue.title), model.palette.heading()),
        Line::styled(
            format!("{}  {}", safe(&issue.fingerprint_id), safe(&issue.kind)),
            model.palette.muted(),
        ),
    ];
    let moment = |at: Option<i64>| at.map_or_else(|| "unknown".into(), time::moment);
    lines.push(Line::from(format!(
        "first {}, last {}, {}",
        moment(issue.first_seen_ns),
        moment(issue.last_seen_ns),
        counted(issue.affected_sessions.len(), "session")
    )));
    for link in issue.evidence.iter().take(8) {
        let rank = link.rank.map(|rank| format!("rank {rank} "));
        let source = link.source_path.as_ref().map(safe);
        lines.push(Line::from(format!(
            "- {} {}{}",
            moment(link.timestamp_ns),
            rank.unwrap_or_default(),
            source.unwrap_or_default()
        )));
    }
    if issue.evidence.len() > 8 {
        lines.push(Line::from(format!(
            "- and {} more",
            issue.evidence.len() - 8
        )));
    }
    lines
}
