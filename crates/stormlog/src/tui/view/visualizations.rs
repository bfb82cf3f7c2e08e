//! The timeline with zoom, pan and a cursor that reads exact values.

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use stormlog_report::escape::for_terminal;
use stormlog_report::{Measure, Severity, Track, UNKNOWN, bytes, time};

use super::timeline::Timeline;
use super::{framed, nothing_yet};
use crate::tui::model::Model;
use crate::tui::update::shown_tracks;

const MEASURES: [Measure; 3] = [Measure::Used, Measure::Reserved, Measure::Allocated];

pub(super) fn draw(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let tracks = shown_tracks(model);
    let chosen = tracks.get(model.plot.track).or(tracks.first());
    let (Some(run), Some((place, whole))) = (&model.run, chosen) else {
        let inner = framed(model, frame, area, "Timeline");
        let text = if model.run.is_some() {
            "no rank that the filter keeps has samples: press f"
        } else {
            nothing_yet(model)
        };
        frame.render_widget(Paragraph::new(text), inner);
        return;
    };
    let track = &run.story.tracks()[*place];
    let title = format!(
        "rank {} device {} (r: next of {}, ranks {})",
        track.rank,
        track.device_id,
        tracks.len(),
        for_terminal(&model.ranks_text)
    );
    let inner = framed(model, frame, area, &title);
    let rows = [
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(2),
    ];
    let [legend, plot, readout] = Layout::vertical(rows).areas(inner);
    frame.render_widget(Paragraph::new(keys(model)), legend);
    let span = model.plot.shown(*whole);
    let marks = run.story.marks();
    let mine = marks
        .iter()
        .filter(|mark| mark.rank.is_none_or(|rank| rank == track.rank))
        .filter(|mark| (span.0..=span.1).contains(&mark.time_ns));
    Timeline {
        track,
        measures: &MEASURES,
        span,
        cursor_ns: model.plot.cursor_ns,
        marks: mine
            .map(|mark| (mark.time_ns, mark_colour(model, mark.severity)))
            .collect(),
        palette: model.palette,
    }
    .draw(frame, plot);
    frame.render_widget(Paragraph::new(values(model, track, span)), readout);
}

fn mark_colour(model: &Model, severity: Severity) -> Color {
    match severity {
        _ if !model.palette.colours => Color::Reset,
        Severity::Critical => Color::Red,
        Severity::Warning => Color::Yellow,
        Severity::Info => Color::DarkGray,
    }
}

fn keys(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for measure in MEASURES {
        let style = Style::new().fg(model.palette.measure(measure));
        spans.push(Span::styled(format!("━ {}  ", measure.name()), style));
    }
    spans.push(Span::styled(
        "+ - zoom  < > pan  ← → cursor  n mark  p PNG  w page",
        model.palette.muted(),
    ));
    Line::from(spans)
}

/// What the sample under the cursor says, to the byte.
fn values(model: &Model, track: &Track, span: (i64, i64)) -> Vec<Line<'static>> {
    let at = model.plot.cursor_ns.unwrap_or(span.1);
    let Some(place) = track.nearest(at) else {
        return Vec::new();
    };
    let start = track.times().first().copied().unwrap_or(0);
    let moment = track.times()[place];
    let mut text = format!("{}:", time::span(moment - start));
    for measure in [
        Measure::Allocated,
        Measure::Reserved,
        Measure::Used,
        Measure::Hidden,
    ] {
        let value = track.values(measure)[place];
        let shown = if value == UNKNOWN {
            "unknown".to_owned()
        } else {
            bytes::human(value)
        };
        let name = measure.name().trim_start_matches("device ");
        let _ = write!(text, " {name} {shown}");
    }
    let exact = track.values(Measure::Used)[place];
    let exact = if exact == UNKNOWN {
        String::new()
    } else {
        format!("  device used {exact} B exactly")
    };
    vec![
        Line::from(text),
        Line::styled(
            format!("{}{exact}", time::moment(moment)),
            model.palette.muted(),
        ),
    ]
}
