//! Ranks in a table, findings with their evidence and advice, and comparison.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use stormlog_analysis::coverage::RankCoverage;
use stormlog_analysis::detect::Finding;
use stormlog_analysis::report::RunReport;
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, time};

use super::{first_line, framed, nothing_yet};
use crate::tui::model::{Comparison, Model};

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some(run) = &model.run else {
        let inner = framed(model, frame, area, "Diagnostics");
        frame.render_widget(Paragraph::new(nothing_yet(model)), inner);
        return;
    };
    let Some(shown) = run.shown() else {
        let inner = framed(model, frame, area, "Diagnostics");
        frame.render_widget(Paragraph::new("no sessions in what is open"), inner);
        return;
    };
    let rows = [Constraint::Percentage(38), Constraint::Percentage(62)];
    let [upper, lower] = Layout::vertical(rows).areas(area);
    let job = shown
        .job_id
        .as_ref()
        .map(|job| job.to_str_lossy().into_owned());
    let title = format!(
        "Run {} of {}: {}, ranks {}",
        run.place + 1,
        run.report.runs.len(),
        for_terminal(job.as_deref().unwrap_or("without a job id")),
        for_terminal(&model.ranks_text)
    );
    let inner = framed(model, frame, upper, &title);
    frame.render_widget(ranks(model, shown), inner);
    match &model.comparison {
        Some(comparison) => compared(model, comparison, frame, lower),
        None => findings(model, frame, lower),
    }
}

fn known(value: Option<i64>) -> String {
    value.map_or_else(|| "?".to_owned(), bytes::human)
}

fn ranks<'a>(model: &Model, run: &'a RunReport) -> Table<'a> {
    let heads = [
        "rank",
        "host",
        "samples",
        "allocated",
        "reserved",
        "used",
        "last",
        "pauses",
    ];
    let kept = run.ranks.iter().filter(|one| model.ranks.keeps(one.rank));
    let mut rows: Vec<Row<'a>> = kept.map(rank_row).collect();
    let missing = run
        .missing_ranks
        .iter()
        .filter(|rank| model.ranks.keeps(**rank));
    rows.extend(missing.take(50).map(|rank| {
        Row::new([rank.to_string(), "nothing recorded".into()])
            .style(model.palette.severity("warning"))
    }));
    let widths = [
        Constraint::Length(5),
        Constraint::Min(8),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(6),
    ];
    Table::new(rows, widths).header(Row::new(heads).style(model.palette.muted()))
}

fn rank_row(one: &RankCoverage) -> Row<'static> {
    Row::new([
        Cell::from(one.rank.to_string()),
        Cell::from(for_terminal(&one.host).into_owned()),
        Cell::from(one.samples.to_string()),
        Cell::from(known(one.peak_allocated_bytes)),
        Cell::from(known(one.peak_reserved_bytes)),
        Cell::from(known(one.peak_used_bytes)),
        Cell::from(known(one.last_used_bytes)),
        Cell::from(one.gaps.to_string()),
    ])
}

fn findings(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let all = model.shown_findings();
    let columns = [Constraint::Percentage(45), Constraint::Percentage(55)];
    let [left, right] = Layout::horizontal(columns).areas(area);
    let inner = framed(model, frame, left, &format!("Findings ({})", all.len()));
    if all.is_empty() {
        let headline = model
            .run
            .as_ref()
            .and_then(|run| run.shown())
            .map_or_else(String::new, |run| run.diagnosis.headline());
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
        .map(|(place, finding)| {
            let rank = finding
                .rank
                .map_or_else(|| "all".into(), |rank| format!("r{rank}"));
            let text = format!("{rank:>4} {}", finding.kind.as_str());
            let line = Line::styled(text, model.palette.severity(finding.severity.as_str()));
            if place == chosen {
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

fn evidence(model: &Model, finding: &Finding) -> Vec<Line<'static>> {
    let style = model.palette.severity(finding.severity.as_str());
    let mut lines = vec![Line::styled(
        for_terminal(&finding.explanation).into_owned(),
        style,
    )];
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
    lines.push(Line::styled(
        for_terminal(&finding.advice).into_owned(),
        model.palette.good(),
    ));
    for (name, value) in &finding.evidence {
        let text = format!("{name} {}", number(name, *value));
        lines.push(Line::styled(text, model.palette.muted()));
    }
    lines
}

/// A number of the evidence, in the unit that its name ends with.
#[expect(clippy::cast_possible_truncation, reason = "whole bytes are meant")]
fn number(name: &str, value: f64) -> String {
    if name.ends_with("_bytes") {
        bytes::human(value.round() as i64)
    } else if name.ends_with("_bytes_per_s") {
        format!("{}/s", bytes::human(value.round() as i64))
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
    let rows = [Constraint::Length(6), Constraint::Min(1)];
    let [upper, lower] = Layout::vertical(rows).areas(inner);
    let table = comparison.rows.iter().map(|(name, here, there)| {
        let change = here.zip(*there).map(|(here, there)| {
            let sign = if there > here { "+" } else { "" };
            format!("{sign}{}", bytes::human(there.saturating_sub(here)))
        });
        Row::new([
            name.clone(),
            known(*here),
            known(*there),
            change.unwrap_or_default(),
        ])
    });
    let widths = [Constraint::Length(18); 4];
    let header = Row::new(["", "here", "there", "change"]).style(model.palette.muted());
    frame.render_widget(Table::new(table, widths).header(header), upper);
    let lines: Vec<Line<'_>> = comparison
        .only_one
        .iter()
        .map(|(is_other, text)| {
            let place = if *is_other { "only there" } else { "only here" };
            Line::from(format!("{place}: {}", for_terminal(text)))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), lower);
}
