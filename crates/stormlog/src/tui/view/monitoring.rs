//! What is watched right now.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, time};

use super::framed;
use crate::tui::model::Model;
use crate::tui::monitor::{Lane, percent};

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = [Constraint::Min(6), Constraint::Length(9)];
    let [upper, lower] = Layout::vertical(rows).areas(area);
    let monitor = &model.monitor;
    let title = match &monitor.what {
        Some(what) => format!("Watching {}", for_terminal(what)),
        None => "Monitoring".to_owned(),
    };
    let inner = framed(model, frame, upper, &title);
    if monitor.lanes.is_empty() {
        frame.render_widget(Paragraph::new(hint(model)), inner);
    } else {
        lanes(model, frame, inner);
    }
    let columns = [Constraint::Percentage(64), Constraint::Percentage(36)];
    let [left, right] = Layout::horizontal(columns).areas(lower);
    alerts(model, frame, left);
    health(model, frame, right);
}

fn hint(model: &Model) -> Vec<Line<'static>> {
    if let Some(failure) = &model.monitor.failure {
        return vec![Line::styled(
            for_terminal(failure).into_owned(),
            model.palette.severity("critical"),
        )];
    }
    if model.monitor.what.is_some() {
        return vec![Line::from("waiting for the first sample")];
    }
    [
        "g  this machine's GPUs",
        "h  this machine's memory",
        "p  a process and its children",
        "s  the sink that is open, written by any process",
    ]
    .into_iter()
    .map(Line::from)
    .collect()
}

fn lanes(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let room = usize::from(area.height);
    let count = model.monitor.lanes.len();
    // As tall as there is room for; at least the line of numbers and one of bars.
    let each = (room / count.max(1)).clamp(2, 12);
    for (place, ((rank, device), lane)) in model.monitor.lanes.iter().enumerate() {
        let top = place * each;
        if top + each > room {
            break;
        }
        let offset = u16::try_from(top).unwrap_or(0);
        let height = u16::try_from(each).unwrap_or(2);
        let slot = Rect::new(area.x, area.y + offset, area.width, height);
        let [head, bars] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(slot);
        frame.render_widget(Paragraph::new(numbers(model, *rank, *device, lane)), head);
        let width = usize::from(bars.width);
        let points = lane.points.iter().rev().take(width).rev();
        let data: Vec<u64> = points
            .map(|(_, used)| u64::try_from(*used).unwrap_or(0))
            .collect();
        let ceiling = lane
            .total
            .filter(|total| *total < lane.peak.saturating_mul(4));
        let ceiling = ceiling.unwrap_or(lane.peak).max(1);
        let sparkline = Sparkline::default()
            .data(data)
            .max(u64::try_from(ceiling).unwrap_or(1))
            .style(model.palette.good());
        frame.render_widget(sparkline, bars);
    }
}

fn numbers(model: &Model, rank: i64, device: i64, lane: &Lane) -> Line<'static> {
    let used = lane.points.back().map_or(0, |(_, used)| *used);
    let name = match device {
        -1 => format!("rank {rank} host"),
        device => format!("rank {rank} device {device}"),
    };
    let mut spans = vec![
        Span::styled(format!("{name}  "), model.palette.heading()),
        Span::raw(format!(
            "{} used, peak {}",
            bytes::human(used),
            bytes::human(lane.peak)
        )),
    ];
    if let Some(total) = lane.total.filter(|total| *total > 0) {
        let share = percent(used, total);
        let limits = model.monitor.limits;
        let style = match share {
            share if share >= limits.critical => model.palette.severity("critical"),
            share if share >= limits.warning => model.palette.severity("warning"),
            _ => model.palette.good(),
        };
        spans.push(Span::styled(format!("  {share:.1} %"), style));
        spans.push(Span::raw(format!(" of {}", bytes::human(total))));
    }
    Line::from(spans)
}

fn alerts(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let monitor = &model.monitor;
    let inner = framed(
        model,
        frame,
        area,
        &format!("Alerts ({})", monitor.alerts.len()),
    );
    let lines: Vec<Line<'_>> = monitor
        .alerts
        .iter()
        .take(usize::from(inner.height))
        .map(|alert| {
            let ago = time::span(model.now_ns.saturating_sub(alert.last_ns).max(0));
            let text = format!(
                "{:>4}x {}  {ago} ago",
                alert.count,
                for_terminal(&alert.text)
            );
            Line::styled(text, model.palette.severity(alert.severity))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

fn health(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let monitor = &model.monitor;
    let inner = framed(model, frame, area, "Collector");
    let mut lines = Vec::new();
    if let Some(failure) = &monitor.failure {
        lines.push(Line::styled(
            for_terminal(failure).into_owned(),
            model.palette.severity("critical"),
        ));
    } else {
        let word = monitor.health.as_deref().unwrap_or(match monitor.what {
            Some(_) => "reading",
            None => "idle",
        });
        let style = match word {
            "degraded" | "unhealthy" => model.palette.severity("warning"),
            _ => model.palette.good(),
        };
        lines.push(Line::styled(for_terminal(word).into_owned(), style));
    }
    lines.push(Line::from(format!("{} events kept", monitor.events.len())));
    let limits = monitor.limits;
    lines.push(Line::from(format!(
        "alerts at {} % and {} %",
        limits.warning, limits.critical
    )));
    lines.push(Line::styled(
        "l limits  e JSON  c CSV  x stop",
        model.palette.muted(),
    ));
    frame.render_widget(Paragraph::new(lines), inner);
}
