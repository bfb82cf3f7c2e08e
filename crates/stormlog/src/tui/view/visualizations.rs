//! Draws the timeline tab with zoom, pan and a cursor that shows exact values.

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use stormlog_format::human_duration;
use stormlog_report::escape::for_terminal;
use stormlog_report::{DrawnTrack, Mark, Measure, UNKNOWN, bytes, time};

use super::timeline::{Timeline, columns_in, dots};
use super::{framed, inside, nothing_yet, safe};
use stormlog_analysis::detect::Severity;

use crate::tui::model::Model;
use crate::tui::run::OpenedRun;
use crate::tui::update::{chosen_track, shown_tracks};

/// The lines of a track: the memory in use, without other processes where the share of the process is
/// known, and the counters of the allocator.
fn measures(track: &DrawnTrack) -> [Measure; 3] {
    let knows_own = track
        .values(Measure::Own)
        .iter()
        .any(|value| *value != UNKNOWN);
    let used = if knows_own {
        Measure::Own
    } else {
        Measure::Used
    };
    [used, Measure::Reserved, Measure::Allocated]
}

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let (Some(run), Some((index, whole))) = (&model.run, chosen_track(model)) else {
        let inner = framed(model, frame, area, "Timeline");
        let text = if model.run.is_some() {
            "no samples for the selected ranks: press f to select ranks"
        } else {
            nothing_yet(model)
        };
        frame.render_widget(Paragraph::new(text), inner);
        return;
    };
    let track = &run.story.tracks()[index];
    let limit = track
        .limit()
        .map_or_else(String::new, |limit| format!(" of {}", bytes::human(limit)));
    let leading = run
        .story
        .leading()
        .filter(|_| run.story.leads(track) && !model.plot.has_all);
    let title = format!(
        "rank {rank} device {device}{limit} (r: next of {tracks} tracks; f: choose ranks, now {ranks})",
        rank = track.rank,
        device = track.device_id,
        tracks = shown_tracks(model).len(),
        ranks = for_terminal(&model.ranks_text)
    );
    let inner = framed(model, frame, area, &title);
    let [legend, plot, readout] = rows(inner);
    let shown = run.story.curve((0, 0), 0);
    let legend_line = match (&leading, shown.found) {
        (Some(_), Some((_, found))) => Line::from(safe(&format!("{found}. {}", shown.title))),
        _ => keys(model, track),
    };
    frame.render_widget(Paragraph::new(legend_line), legend);
    let span = model.plot.shown(whole);
    let marks = run
        .marks
        .iter()
        .filter(|mark| mark.rank.is_none_or(|rank| rank == track.rank))
        .filter(|mark| (span.0..=span.1).contains(&mark.time_ns));
    let count = columns_in(plot);
    let curve = |measure| {
        let columns = track.columns(measure, span, count);
        (model.palette.pen(measure), columns)
    };
    let start_ns = run.story.start_ns().unwrap_or(whole.0);
    let base = if leading.is_some() {
        Timeline::of_curve(run.story.curve(span, count), span, start_ns, model.palette)
    } else {
        Timeline {
            curves: measures(track).map(curve).into(),
            limit: track.limit(),
            start_ns,
            ..Timeline::of_used(Vec::new(), span, model.palette)
        }
    };
    Timeline {
        cursor_ns: model.plot.cursor_ns,
        marks: marks
            .map(|mark| (mark.time_ns, mark_colour(model, mark.severity)))
            .collect(),
        ..base
    }
    .draw(frame, plot);
    frame.render_widget(Paragraph::new(values(model, run, track, span)), readout);
}

/// Splits the area into the legend, the plot and the values at the cursor.
fn rows(inner: Rect) -> [Rect; 3] {
    let rows = [
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(3),
    ];
    Layout::vertical(rows).areas(inner)
}

/// The part of the plot in which curves are drawn, if there is a plot.
pub(super) fn dots_area(model: &Model, area: Rect) -> Option<Rect> {
    chosen_track(model)?;
    let [_, plot, _] = rows(inside(area));
    Some(dots(plot))
}

fn mark_colour(model: &Model, severity: Severity) -> Color {
    model.palette.severity_colour(severity.as_str())
}

fn keys(model: &Model, track: &DrawnTrack) -> Line<'static> {
    let mut spans = Vec::new();
    for measure in measures(track) {
        let pen = model.palette.pen(measure);
        let style = Style::new().fg(pen.colour);
        let text = format!("{} {}  ", pen.sample(), measure.as_str());
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// The lines below the plot: the values of the sample nearest to the cursor, its time, its phase,
/// and a mark close to the cursor.
fn values(
    model: &Model,
    run: &OpenedRun,
    track: &DrawnTrack,
    span: (i64, i64),
) -> Vec<Line<'static>> {
    let at = model.plot.cursor_ns.unwrap_or(span.1);
    let Some(index) = track.nearest(at) else {
        return Vec::new();
    };
    let moment = track.times()[index];
    let start = run.story.start_ns().unwrap_or(moment);
    let since = moment.saturating_add(track.skew_ns).saturating_sub(start);
    let mut text = format!("{}:", human_duration(since));
    let leading = run
        .story
        .leading()
        .filter(|_| run.story.leads(track) && !model.plot.has_all);
    let leading = leading
        .and_then(|(track, measure, name)| Some((track.values(measure)[track.nearest(at)?], name)));
    if let Some((bytes, name)) = leading {
        let _ = write!(text, " {name} {};", bytes::human(bytes));
    }
    for measure in [
        Measure::Allocated,
        Measure::Reserved,
        Measure::Used,
        Measure::Hidden,
    ] {
        let value = track.values(measure)[index];
        let shown = if value == UNKNOWN {
            "unknown".to_owned()
        } else {
            bytes::human(value)
        };
        let name = measure.as_str().trim_start_matches("device ");
        let _ = write!(text, " {name} {shown}");
    }
    let exact = track.values(Measure::Used)[index];
    let exact = if exact == UNKNOWN {
        String::new()
    } else {
        format!("  device used: {exact} B")
    };
    let mut labels = Vec::new();
    if let Some(phase) = run.phase_at(track.rank, moment) {
        labels.push(Span::raw(format!("phase {}  ", for_terminal(&phase.path))));
    }
    if let Some(mark) = mark_near(run, track.rank, at, span) {
        let style = Style::new().fg(mark_colour(model, mark.severity));
        let label = mark.detail.as_deref().unwrap_or(&mark.label);
        labels.push(Span::styled(safe(label), style));
    }
    vec![
        Line::from(text),
        Line::styled(
            format!("{}{exact}", time::moment(moment)),
            model.palette.muted(),
        ),
        Line::from(labels),
    ]
}

/// The mark that is nearest to a time, at most a hundredth of the shown time range away.
fn mark_near(run: &OpenedRun, rank: i64, at: i64, span: (i64, i64)) -> Option<&Mark> {
    let farthest = span.1.saturating_sub(span.0) / 100;
    let distance = |mark: &&Mark| mark.time_ns.saturating_sub(at).saturating_abs();
    let marks = run.marks.iter();
    marks
        .filter(|mark| mark.rank.is_none_or(|marked| marked == rank))
        .filter(|mark| distance(mark) <= farthest)
        .min_by_key(distance)
}
