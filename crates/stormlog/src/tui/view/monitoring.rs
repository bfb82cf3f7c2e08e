//! Draws the monitoring tab: current memory, alerts and collector health of the target that is
//! sampled, such as a process.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};
use stormlog_format::{counted, human_duration};
use stormlog_report::escape::for_terminal;
use stormlog_report::{bytes, columns};

use super::timeline::{Timeline, columns_in};
use super::{first_line, framed, inside, safe};
use crate::tui::model::{Model, Tab};
use crate::tui::monitor::{Lane, lane_name, percent, share_of};

const ROWS: [Constraint; 2] = [Constraint::Min(6), Constraint::Length(8)];

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let [upper, lower] = Layout::vertical(ROWS).areas(area);
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
        let style = model.palette.severity("critical");
        return vec![Line::styled(safe(failure), style)];
    }
    if model.monitor.what.is_some() {
        return vec![Line::from("waiting for the first sample")];
    }
    [
        "g  this machine's GPUs",
        "h  this machine's memory",
        "p  a process and its children",
        "s  the opened recording, live",
    ]
    .into_iter()
    .map(Line::from)
    .collect()
}

/// Draws as many lanes (each the samples of one device or host) as fit, beside the timeline of the
/// selected lane. Each lane of the live view takes two lines: one with numbers and one with bars.
fn lanes(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let [list, plot] = halves(model, area);
    let shown = usize::from(list.height / LANE);
    let chosen = chosen_lane(model);
    let first = first_line(chosen, shown.max(1));
    let lanes = model.monitor.lanes.iter().enumerate();
    for (row, (index, ((rank, device), lane))) in lanes.skip(first).take(shown).enumerate() {
        let offset = u16::try_from(row).unwrap_or(0) * LANE;
        let slot = Rect::new(list.x, list.y + offset, list.width, LANE);
        let [head, bars] =
            Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(slot);
        let mut text = numbers(model, *rank, *device, lane);
        if index == chosen && model.monitor.lanes.len() > 1 {
            text = text.patch_style(model.palette.selected());
        }
        frame.render_widget(Paragraph::new(text), head);
        sparkline(model, frame, bars, lane);
    }
    if let Some(lane) = model.monitor.lanes.values().nth(chosen) {
        timeline(model, frame, plot, lane);
    }
}

/// The number of lines that a lane (the samples of one device or host) takes in the list.
const LANE: u16 = 2;

/// Splits the area into the list of lanes, one per device or host, and the timeline of the selected
/// lane.
fn halves(model: &Model, area: Rect) -> [Rect; 2] {
    let wanted = u16::try_from(model.monitor.lanes.len()).unwrap_or(u16::MAX);
    let most = (area.height.saturating_sub(5) / LANE).max(1);
    let list = wanted.clamp(1, most) * LANE;
    Layout::vertical([Constraint::Length(list), Constraint::Min(0)]).areas(area)
}

fn chosen_lane(model: &Model) -> usize {
    let last = model.monitor.lanes.len().saturating_sub(1);
    model.cursors[Tab::Monitoring.index()].min(last)
}

/// The index of the lane (the samples of one device or host) at a position of the screen.
pub(super) fn lane_at(model: &Model, area: Rect, position: Position) -> Option<usize> {
    if model.monitor.lanes.is_empty() {
        return None;
    }
    let [upper, _] = Layout::vertical(ROWS).areas(area);
    let [list, _] = halves(model, inside(upper));
    let shown = usize::from(list.height / LANE);
    let first = first_line(chosen_lane(model), shown.max(1));
    let row = list.contains(position).then(|| position.y - list.y)?;
    let index = first + usize::from(row / LANE);
    (index < model.monitor.lanes.len()).then_some(index)
}

fn sparkline(model: &Model, frame: &mut Frame<'_>, area: Rect, lane: &Lane) {
    let points = lane.points.iter().rev().take(usize::from(area.width)).rev();
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
    frame.render_widget(sparkline, area);
}

/// Draws the timeline of one device or host, with the alert limits that are close to its values.
fn timeline(model: &Model, frame: &mut Frame<'_>, area: Rect, lane: &Lane) {
    let ends = lane.points.front().zip(lane.points.back());
    let Some(((from, _), (to, _))) = ends.filter(|_| area.height > 2) else {
        return;
    };
    let span = (*from, *to);
    let columns = columns(lane.points.iter().copied(), span, columns_in(area));
    let limits = model.monitor.limits;
    let levels = [(limits.warning, "warning"), (limits.critical, "critical")];
    Timeline {
        levels: lane.total.map_or_else(Vec::new, |total| {
            let level = |(share, severity): (f64, &str)| {
                (
                    share_of(total, share),
                    model.palette.severity_colour(severity),
                )
            };
            levels.map(level).into()
        }),
        limit: lane.total,
        ..Timeline::of_used(columns, span, model.palette)
    }
    .draw(frame, area);
}

fn numbers(model: &Model, rank: i64, device: i64, lane: &Lane) -> Line<'static> {
    let used = lane.points.back().map_or(0, |(_, used)| *used);
    let name = lane_name(rank, device);
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
        let style = model.palette.level(model.monitor.limits.level(share));
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
        &format!(
            "Alerts ({} in {} groups)",
            monitor.alert_count(),
            monitor.alerts.len()
        ),
    );
    let lines: Vec<Line<'_>> = monitor
        .alerts
        .iter()
        .take(usize::from(inner.height))
        .map(|alert| {
            let ago = human_duration(model.now_ns.saturating_sub(alert.last_ns).max(0));
            let text = format!(
                "{:>4}x {ago:>7} ago  {}",
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
        let style = model.palette.severity("critical");
        lines.push(Line::styled(safe(failure), style));
    } else {
        lines.extend(collectors(model));
    }
    if let Some(silence) = monitor.silence(model.now_ns) {
        let style = if silence.is_long {
            model.palette.severity("warning")
        } else {
            Style::new()
        };
        lines.push(Line::styled(
            format!("last event {} ago", human_duration(silence.length_ns)),
            style,
        ));
    }
    let limits = monitor.limits;
    lines.push(Line::from(format!(
        "thresholds {} % and {} %",
        limits.warning, limits.critical
    )));
    lines.push(Line::from(format!(
        "{} in memory",
        counted(monitor.events.len(), "event")
    )));
    lines.push(Line::styled(
        "l thresholds e JSON c CSV",
        model.palette.muted(),
    ));
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Describes the health of the collectors: how many have each status, and for the collector with
/// the worst status its rank and the reason.
fn collectors(model: &Model) -> Vec<Line<'static>> {
    let monitor = &model.monitor;
    if monitor.health.is_empty() {
        let word = if monitor.what.is_some() {
            "reading"
        } else {
            "idle"
        };
        return vec![Line::styled(word, model.palette.good())];
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for health in monitor.health.values() {
        *counts.entry(&health.status).or_default() += 1;
    }
    let style = |status: &str| match status {
        "healthy" => model.palette.good(),
        "unhealthy" => model.palette.severity("critical"),
        _ => model.palette.severity("warning"),
    };
    let mut lines: Vec<Line<'static>> = counts
        .iter()
        .map(|(status, count)| {
            let text = format!("{count} {}", for_terminal(status));
            Line::styled(text, style(status))
        })
        .collect();
    let severity = |status: &str| match status {
        "healthy" => 0,
        "unhealthy" => 2,
        _ => 1,
    };
    // `rev` makes the lowest rank win among collectors with the same status.
    let worst = monitor
        .health
        .iter()
        .rev()
        .filter(|(_, health)| health.status != "healthy")
        .max_by_key(|(_, health)| severity(&health.status));
    if let Some((rank, health)) = worst {
        let reason = health.reason.as_deref().unwrap_or("no reason given");
        let text = format!("rank {rank}: {}", for_terminal(reason));
        lines.push(Line::styled(text, style(&health.status)));
    }
    lines
}
