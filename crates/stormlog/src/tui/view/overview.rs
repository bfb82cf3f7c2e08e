//! Draws the overview tab: what is open, its problems, and facts about the machine.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use stormlog_analysis::issue::Issue;
use stormlog_format::{SessionStatus, counted, human_duration};
use stormlog_report::analyze::note_lines;
use stormlog_report::escape::for_terminal;
use stormlog_report::{DrawnTrack, LedgerLines, bytes, columns, ledger_lines, time};

use super::timeline::{Timeline, columns_in};
use super::{below_header, first_path, framed, inside, line_at, nothing_yet, recent, safe};
use crate::tui::model::Model;
use crate::tui::outline::Outline;

const ROWS: [Constraint; 2] = [Constraint::Length(10), Constraint::Min(4)];
/// The widths of the plot and of the list of what uses the memory of the device, on a screen that
/// is large enough for both.
const LOWER: [Constraint; 2] = [Constraint::Min(50), Constraint::Length(56)];
const WIDE: u16 = 110;
const HIGH: u16 = 16;

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let [upper, lower] = Layout::vertical(ROWS).areas(area);
    let columns = [Constraint::Percentage(42), Constraint::Percentage(58)];
    let [left, right] = Layout::horizontal(columns).areas(upper);
    facts(model, frame, left);
    let ledger = ledger_of(model);
    match ledger {
        Some(ledger) if lower.width >= WIDE && lower.height >= HIGH => {
            verdict(model, frame, right, None);
            let [left, right] = Layout::horizontal(LOWER).areas(lower);
            plot(model, frame, left);
            users(model, frame, right, &ledger);
        }
        ledger => {
            verdict(model, frame, right, ledger.as_ref());
            plot(model, frame, lower);
        }
    }
}

/// The list of what uses the memory of a device, for the device with the most memory in use.
fn ledger_of(model: &Model) -> Option<LedgerLines> {
    let run = model.shown_run()?;
    ledger_lines(&run.timeline, 1).into_iter().next()
}

/// Draws the list of what uses the memory of a device, one line per entry, such as the CUDA context
/// or another process.
fn users(model: &Model, frame: &mut Frame<'_>, area: Rect, ledger: &LedgerLines) {
    let inner = framed(model, frame, area, &for_terminal(&ledger.title));
    let mut lines: Vec<Line<'_>> = ledger
        .lines
        .iter()
        .map(|line| {
            Line::from(vec![
                Span::styled(format!("{:>9}  ", line.size), model.palette.muted()),
                Span::raw(safe(&line.name)),
            ])
        })
        .collect();
    if let Some(unknown) = &ledger.unknown {
        lines.push(Line::styled(safe(unknown), model.palette.muted()));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), inner);
}

/// The index of the recent run at a position of the screen, while recent runs are listed.
pub(super) fn line_of(model: &Model, area: Rect, position: Position) -> Option<usize> {
    let [_, lower] = Layout::vertical(ROWS).areas(area);
    let list = below_header(inside(lower));
    line_at(list, position, model.cursor(), model.offered().len())
}

fn facts(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let inner = framed(model, frame, area, "Stormlog");
    let fact = |name: &str, value: String| {
        Line::from(vec![
            Span::styled(format!("{name:<9}"), model.palette.muted()),
            Span::raw(safe(&value)),
        ])
    };
    let mut lines = vec![fact("host", model.machine.host.clone())];
    match (&model.machine.gpus.as_slice(), &model.machine.no_gpu) {
        ([], Some(_)) => lines.push(fact("GPUs", "none (no NVIDIA driver found)".into())),
        (gpus, _) => {
            for gpu in gpus.iter().take(3) {
                lines.push(fact("GPU", gpu.clone()));
            }
        }
    }
    let open = if model.paths.is_empty() {
        "nothing yet".to_owned()
    } else {
        first_path(&model.paths)
    };
    lines.push(fact("open", open));
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
        if let Some(first) = first {
            lines.push(fact("from", time::moment(first)));
            lines.extend(duration_since(first, model).map(|text| fact("lasting", text)));
        }
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// How long the listed sessions lasted, or have lasted so far if one of them is running; `None` if
/// no end is known.
fn duration_since(first_ns: i64, model: &Model) -> Option<String> {
    let mut rows = model.sessions.iter();
    if rows.any(|row| row.effective_status == SessionStatus::Running) {
        let so_far = model.now_ns.saturating_sub(first_ns).max(0);
        return Some(format!("{} so far", human_duration(so_far)));
    }
    let ends = model.sessions.iter().map(|row| row.summary.ended_at_ns);
    let last_ns = ends.max().flatten()?;
    Some(human_duration(last_ns.saturating_sub(first_ns)))
}

/// Draws the verdict; on a small screen, the frame of the verdict also contains what uses the
/// memory of the device.
fn verdict(model: &Model, frame: &mut Frame<'_>, area: Rect, ledger: Option<&LedgerLines>) {
    let issues = model.issues.as_ref().map_or_else(String::new, |issues| {
        let is_open = |issue: &&Issue| ["open", "regressed"].contains(&issue.state);
        let open = issues.iter().filter(is_open).count();
        format!("; {}, {open} open", counted(issues.len(), "issue"))
    });
    let title = match model.live_ns {
        Some(at_ns) => {
            let age = human_duration(model.now_ns.saturating_sub(at_ns).max(0));
            format!("Live verdict{issues}; {age} old")
        }
        None => format!("Verdict{issues}"),
    };
    let inner = framed(model, frame, area, &title);
    let mut lines = Vec::new();
    match model.shown_run() {
        None => match &model.outline {
            Some(outline) => lines.extend(from_rollups(model, outline)),
            None => lines.push(Line::from(nothing_yet(model))),
        },
        Some(run) => {
            let findings = run.diagnosis.findings();
            let severity = findings
                .first()
                .map_or("fine", |finding| finding.severity.as_str());
            let style = model.palette.level(severity);
            lines.push(Line::styled(safe(&run.diagnosis.headline()), style));
            for finding in findings.iter().skip(1).take(3) {
                let style = model.palette.severity(finding.severity.as_str());
                lines.push(Line::styled(
                    format!("- {}", for_terminal(&finding.explanation)),
                    style,
                ));
            }
            for line in note_lines(&run.diagnosis) {
                lines.push(Line::from(safe(&line)));
            }
            if let Some(ledger) = ledger {
                lines.push(Line::from(safe(&ledger.sentence())));
            }
            if !run.missing_ranks.is_empty() {
                let ranks = counted(run.missing_ranks.len(), "rank");
                lines.push(Line::from(format!("{ranks} without samples")));
            }
        }
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), inner);
}

fn plot(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let shown = model.run.as_ref().and_then(|run| {
        let (from, to) = run.story.first_and_last_ns()?;
        Some((run, (run.story.start_ns()?, (from, to))))
    });
    let Some((run, (start_ns, span))) = shown else {
        if model.paths.is_empty() {
            return recent::draw(model, frame, area);
        }
        return outline(model, frame, area);
    };
    let curve = run.story.curve(span, columns_in(inside(area)));
    let found = curve.found.as_ref();
    let title = if let Some((_, found)) = found {
        // What was found comes first, because a narrow screen cuts the title.
        let limit = curve.limit.as_ref();
        let limit = limit.map_or_else(String::new, |limit| format!("; {limit}"));
        format!("{found}{limit}. {}", curve.title)
    } else {
        let highs = curve.columns.iter().flatten().map(|(_, high)| *high);
        let peak = highs
            .max()
            .map(|peak| format!(", peak {}", bytes::human(peak)));
        let mut title = curve.title.clone() + &peak.unwrap_or_default();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        title
    };
    let has_found = found.is_some();
    let inner = framed(model, frame, area, &for_terminal(&title));
    let limits = run.story.tracks().iter().filter_map(DrawnTrack::limit);
    Timeline {
        limit: limits.max().filter(|_| !has_found),
        ..Timeline::of_curve(curve, span, start_ns, model.palette)
    }
    .draw(frame, inner);
}

/// Draws the coarse memory curve from the rollups, which is shown until the events are read.
fn outline(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let outline = model.outline.as_ref();
    let known = outline.and_then(|outline| Some((outline, outline.curve.first()?.0)));
    let Some((outline, start_ns)) = known else {
        let inner = framed(model, frame, area, "Memory");
        frame.render_widget(Paragraph::new(nothing_yet(model)), inner);
        return;
    };
    let title = "Device memory, maximum per interval (from rollups)";
    let inner = framed(model, frame, area, title);
    let span = (start_ns, outline.end_ns.max(start_ns));
    let columns = columns(outline.curve.iter().copied(), span, columns_in(inner));
    Timeline::of_used(columns, span, model.palette).draw(frame, inner);
}

/// The peaks and alerts from the rollups as text, which is shown until there is a verdict.
fn from_rollups(model: &Model, outline: &Outline) -> Vec<Line<'static>> {
    let known = |value: Option<i64>| value.map_or_else(|| "unknown".to_owned(), bytes::human);
    let rank = outline.peak_rank.map(|rank| format!(" on rank {rank}"));
    let mut lines = vec![Line::from(format!(
        "peak {} used{}, {} allocated",
        known(outline.peak_used),
        rank.unwrap_or_default(),
        known(outline.peak_allocated)
    ))];
    let style = match (outline.ooms, outline.alerts) {
        (1.., _) => model.palette.severity("critical"),
        (_, 1..) => model.palette.severity("warning"),
        _ => model.palette.good(),
    };
    let ooms = match outline.ooms {
        0 => "no OOM".to_owned(),
        count => counted(count, "OOM"),
    };
    let text = format!("{ooms}, {}", counted(outline.alerts, "alert"));
    lines.push(Line::styled(text, style));
    if outline.degraded > 0 {
        lines.push(Line::from(format!(
            "collector degraded {}",
            counted(outline.degraded, "time")
        )));
    }
    lines.push(Line::styled(
        "numbers from rollups; verdict pending",
        model.palette.muted(),
    ));
    lines
}
