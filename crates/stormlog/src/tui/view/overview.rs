//! The first screen: what is open, what is wrong with it, what machine this is.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use stormlog_report::escape::for_terminal;
use stormlog_report::{Measure, bytes, time};

use super::timeline::Timeline;
use super::{framed, nothing_yet};
use crate::tui::model::Model;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = [Constraint::Length(10), Constraint::Min(4)];
    let [upper, lower] = Layout::vertical(rows).areas(area);
    let columns = [Constraint::Percentage(42), Constraint::Percentage(58)];
    let [left, right] = Layout::horizontal(columns).areas(upper);
    facts(model, frame, left);
    verdict(model, frame, right);
    plot(model, frame, lower);
}

fn facts(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let inner = framed(model, frame, area, "Stormlog");
    let fact = |name: &str, value: String| {
        Line::from(vec![
            Span::styled(format!("{name:<9}"), model.palette.muted()),
            Span::raw(for_terminal(&value).into_owned()),
        ])
    };
    let mut lines = vec![fact("host", model.machine.host.clone())];
    match (&model.machine.gpus.as_slice(), &model.machine.no_gpu) {
        ([], Some(_)) => lines.push(fact("GPUs", "none seen (no NVIDIA driver)".into())),
        (gpus, _) => {
            for gpu in gpus.iter().take(3) {
                lines.push(fact("GPU", gpu.clone()));
            }
        }
    }
    let paths: Vec<String> = model
        .paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match paths.as_slice() {
        [] => lines.push(fact("open", "nothing; o opens a path".into())),
        [path] => lines.push(fact("open", path.clone())),
        [path, rest @ ..] => lines.push(fact("open", format!("{path} and {} more", rest.len()))),
    }
    let events: i64 = model
        .sessions
        .iter()
        .filter_map(|row| row.event_count)
        .sum();
    if !model.sessions.is_empty() {
        lines.push(fact("sessions", model.sessions.len().to_string()));
        lines.push(fact("events", events.to_string()));
        let first = model
            .sessions
            .iter()
            .map(|row| row.summary.started_at_ns)
            .min();
        let last = model
            .sessions
            .iter()
            .filter_map(|row| row.summary.ended_at_ns)
            .max();
        if let Some(first) = first {
            lines.push(fact("from", time::moment(first)));
            if let Some(last) = last {
                lines.push(fact("lasting", time::span(last.saturating_sub(first))));
            }
        }
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

fn verdict(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let inner = framed(model, frame, area, "Verdict");
    let mut lines = Vec::new();
    match model.run.as_ref().and_then(|run| run.shown()) {
        None => lines.push(Line::from(nothing_yet(model))),
        Some(run) => {
            let findings = run.diagnosis.findings();
            let severity = findings
                .first()
                .map_or("fine", |finding| finding.severity.as_str());
            let style = match severity {
                "fine" => model.palette.good(),
                severity => model.palette.severity(severity),
            };
            let headline = run.diagnosis.headline();
            lines.push(Line::styled(for_terminal(&headline).into_owned(), style));
            for finding in findings.iter().skip(1).take(3) {
                let style = model.palette.severity(finding.severity.as_str());
                lines.push(Line::styled(
                    format!("- {}", for_terminal(&finding.explanation)),
                    style,
                ));
            }
            if !run.missing_ranks.is_empty() {
                let count = run.missing_ranks.len();
                lines.push(Line::from(format!("{count} ranks have recorded nothing")));
            }
        }
    }
    if let Some(issues) = &model.issues {
        let open = issues
            .iter()
            .filter(|issue| ["open", "regressed"].contains(&issue.state));
        lines.push(Line::from(format!(
            "{} issue{}, {} of them open",
            issues.len(),
            if issues.len() == 1 { "" } else { "s" },
            open.count()
        )));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), inner);
}

fn plot(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let Some((run, track)) = model
        .run
        .as_ref()
        .and_then(|run| Some((run, run.story.tracks().first()?)))
    else {
        let inner = framed(model, frame, area, "Memory");
        frame.render_widget(Paragraph::new(nothing_yet(model)), inner);
        return;
    };
    let several = run.story.tracks().len();
    let peak = track.values(Measure::Used).iter().max().copied();
    let peak = peak
        .filter(|peak| *peak > 0)
        .map(bytes::human)
        .unwrap_or_default();
    let title = format!(
        "Device memory of rank {} ({several} in all), peak {peak}",
        track.rank
    );
    let inner = framed(model, frame, area, &title);
    if let Some(span) = track.first_and_last_ns() {
        Timeline {
            track,
            measures: &[Measure::Used],
            span,
            cursor_ns: None,
            marks: Vec::new(),
            palette: model.palette,
        }
        .draw(frame, inner);
    }
}
