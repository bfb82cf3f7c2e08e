//! Draws the diagnostics tab: the table of ranks, findings with their evidence and advice, phases,
//! and the comparison with another run.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Wrap};
use stormlog_analysis::detect::Finding;
use stormlog_format::{human_bytes, human_duration, human_rate};
use stormlog_report::analyze::cause_lines;
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, held_lines, time};

use super::{Hit, below_header, first_line, framed, inside, line_at, nothing_yet, safe, table};
use crate::rank_filter::RankFilter;
use crate::tui::model::{Comparison, Model, Pane};
use crate::tui::run::{OpenedRun, RankLine};

/// The largest number of call stacks that are listed with a finding: those that allocated the most
/// of the memory that is still in use.
const MOST_STACKS: usize = 3;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let (Some(run), Some(shown)) = (&model.run, model.shown_run()) else {
        let inner = framed(model, frame, area, "Diagnostics");
        let text = match model.run {
            None => nothing_yet(model),
            Some(_) => "no sessions",
        };
        frame.render_widget(Paragraph::new(text), inner);
        return;
    };
    let [upper, lower] = halves(area);
    let job = shown
        .job_id
        .as_ref()
        .map(|job| job.to_str_lossy().into_owned());
    let title = format!(
        "Run {} of {}: {}, ranks {}",
        run.index + 1,
        run.report.runs.len(),
        for_terminal(job.as_deref().unwrap_or("without a job id")),
        for_terminal(&model.ranks_text)
    );
    ranks(model, run, frame, upper, &title);
    match (model.pane, &model.comparison) {
        (Pane::Comparison, Some(comparison)) => compared(model, comparison, frame, lower),
        (Pane::Phases, _) => phases(model, frame, lower),
        _ => findings(model, frame, lower),
    }
}

/// Splits the diagnostics tab into the area of the table of ranks and the area of the pane below
/// it.
fn halves(area: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(area)
}

/// The line of the table of ranks or of the pane below it at a position of the mouse; `None`
/// elsewhere.
pub(super) fn hit(model: &Model, area: Rect, position: Position) -> Option<Hit> {
    model.shown_run()?;
    let [upper, lower] = halves(area);
    let list = below_header(inside(upper));
    let count = model.shown_ranks().len();
    if let Some(index) = line_at(list, position, model.rank_cursor, count) {
        return Some(Hit::Rank(index));
    }
    let (list, count) = match model.pane {
        Pane::Findings => (inside(sides(lower)[0]), model.shown_findings().len()),
        Pane::Phases => (below_header(inside(lower)), model.shown_phases().len()),
        Pane::Comparison => return None,
    };
    line_at(list, position, model.cursor(), count).map(Hit::Line)
}

fn sides(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Percentage(45), Constraint::Percentage(55)]).areas(area)
}

fn known(value: Option<i64>) -> String {
    value.map_or_else(|| "?".to_owned(), bytes::human)
}

fn ranks(model: &Model, run: &OpenedRun, frame: &mut Frame<'_>, area: Rect, title: &str) {
    let inner = framed(model, frame, area, title);
    let is_wide = inner.width >= 100;
    let lines = model.shown_ranks();
    let chosen = model.rank_cursor.min(lines.len().saturating_sub(1));
    let rows = lines.iter().map(|line| rank_row(model, line, is_wide));
    let columns = [
        ("rank", Constraint::Length(5)),
        ("samples", Constraint::Length(8)),
        ("alloc", Constraint::Length(9)),
        ("reserved", Constraint::Length(9)),
        ("used", Constraint::Length(9)),
        ("hidden", Constraint::Length(9)),
        ("gaps", Constraint::Length(6)),
        ("finding", Constraint::Min(15)),
        ("host", Constraint::Length(if is_wide { 24 } else { 0 })),
    ];
    let chosen = (lines.len() > 1).then_some(chosen);
    table(model, frame, inner, columns, rows, chosen);
    let text = match run.first_cause() {
        Some(cause) => format!(" first cause: {} ", for_terminal(cause)),
        None => match run.leading_rank() {
            Some((rank, kind)) => format!(" first cause: rank {rank} ({}) ", kind.detector().label),
            None => " first cause: none (no rank's memory rose clearly first) ".to_owned(),
        },
    };
    let room = usize::from(area.width).saturating_sub(4);
    let text: String = text.chars().take(room).collect();
    let last = Rect {
        x: area.x + 1,
        y: area.y + area.height.saturating_sub(1),
        width: area.width.saturating_sub(2),
        height: 1,
    };
    frame.render_widget(Span::styled(text, model.palette.heading()), last);
}

fn rank_row(model: &Model, line: &RankLine, is_wide: bool) -> Row<'static> {
    let mark = if line.is_first_cause { "▶" } else { "" };
    let rank = format!("{}{mark}", line.rank);
    let Some(one) = &line.coverage else {
        return Row::new([rank, "nothing".to_owned()]).style(model.palette.severity("warning"));
    };
    let (severity, finding) = line.finding.map_or(("info", ""), |(severity, kind)| {
        (severity.as_str(), kind.as_str())
    });
    let host = if is_wide {
        safe(&one.host)
    } else {
        String::new()
    };
    Row::new([
        Cell::from(rank),
        Cell::from(one.samples.to_string()),
        Cell::from(known(one.peaks.allocated)),
        Cell::from(known(one.peaks.reserved)),
        Cell::from(known(one.peaks.used)),
        Cell::from(known(line.hidden_peak)),
        Cell::from(one.gaps.to_string()),
        Cell::from(finding).style(model.palette.severity(severity)),
        Cell::from(host),
    ])
}

fn findings(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let all = model.shown_findings();
    let [left, right] = sides(area);
    let inner = framed(model, frame, left, &format!("Findings ({})", all.len()));
    if all.is_empty() {
        let headline = model.shown_run().map(|run| run.diagnosis.headline());
        let headline = match model.ranks {
            RankFilter::All => safe(&headline.unwrap_or_default()),
            RankFilter::Some(_) => "no findings for these ranks".to_owned(),
        };
        frame.render_widget(Paragraph::new(headline).wrap(Wrap { trim: true }), inner);
        framed(model, frame, right, "Evidence");
        return;
    }
    let chosen = model.cursor().min(all.len() - 1);
    let room = usize::from(inner.height).max(1);
    let lines: Vec<Line<'_>> = all
        .iter()
        .enumerate()
        .skip(first_line(chosen, room))
        .take(room)
        .map(|(index, finding)| {
            let rank = finding
                .rank
                .map_or_else(|| "all".into(), |rank| format!("r{rank}"));
            let text = format!("{rank:>4} {}", finding.kind.as_str());
            let line = Line::styled(text, model.palette.severity(finding.severity.as_str()));
            if index == chosen {
                line.patch_style(model.palette.selected())
            } else {
                line
            }
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
    let inner = framed(model, frame, right, "Evidence");
    let text = Paragraph::new(evidence(model, all[chosen])).wrap(Wrap { trim: true });
    frame.render_widget(text, inner);
}

fn phases(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let lines = model.shown_phases();
    let title = format!("Phases ({}); v: findings", lines.len());
    let inner = framed(model, frame, area, &title);
    if lines.is_empty() {
        let text = "no phases recorded for these ranks";
        frame.render_widget(Paragraph::new(text), inner);
        return;
    }
    let chosen = model.cursor().min(lines.len() - 1);
    let rows = lines.iter().map(|line| {
        Row::new([
            safe(&line.path),
            line.count.to_string(),
            line.ranks.len().to_string(),
            human_duration(line.total_ns),
            human_duration(line.longest_ns),
            known(line.peak_used),
        ])
    });
    let columns = [
        ("phase", Constraint::Min(20)),
        ("count", Constraint::Length(7)),
        ("ranks", Constraint::Length(6)),
        ("total", Constraint::Length(11)),
        ("longest", Constraint::Length(11)),
        ("peak", Constraint::Length(9)),
    ];
    table(model, frame, inner, columns, rows, Some(chosen));
}

fn evidence(model: &Model, finding: &Finding) -> Vec<Line<'static>> {
    let style = model.palette.severity(finding.severity.as_str());
    let mut lines = vec![Line::styled(safe(&finding.explanation), style)];
    let mut texts = cause_lines(finding);
    if let Some((run, rank)) = model.shown_run().zip(finding.rank) {
        let device = finding.device_id;
        texts.extend(held_lines(&run.timeline, rank, device, MOST_STACKS));
    }
    lines.extend(texts.iter().map(|text| Line::from(safe(text))));
    if let Some(onset) = finding.onset_ns {
        lines.push(Line::from(format!("since {}", time::moment(onset))));
    }
    if let Some(phase) = &finding.phase {
        lines.push(Line::from(format!("in phase {}", for_terminal(phase))));
    }
    lines.push(Line::from(format!(
        "confidence {:.0} %",
        finding.confidence * 100.0
    )));
    lines.push(Line::styled(safe(&finding.advice), model.palette.good()));
    for (name, value) in &finding.evidence {
        let text = format!("{name} {}", number(name, *value));
        lines.push(Line::styled(text, model.palette.muted()));
    }
    lines
}

/// Formats a number of a finding's evidence in the unit that the end of the number's name states,
/// such as `_bytes`.
fn number(name: &str, value: f64) -> String {
    if name.ends_with("_bytes") {
        human_bytes(value.round())
    } else if name.ends_with("_bytes_per_s") {
        human_rate(value)
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

fn compared(model: &Model, comparison: &Comparison, frame: &mut Frame<'_>, area: Rect) {
    let title = format!(
        "Compared with {} (Esc closes)",
        for_terminal(&comparison.name)
    );
    let inner = framed(model, frame, area, &title);
    let lines: Vec<Line<'_>> = comparison
        .lines
        .iter()
        .enumerate()
        .skip(model.cursor())
        .take(usize::from(inner.height))
        .map(|(index, line)| match index {
            // The first line of a comparison is its outcome and is drawn as a heading.
            0 => Line::styled(line.as_str(), model.palette.heading()),
            _ => Line::from(line.as_str()),
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
}
