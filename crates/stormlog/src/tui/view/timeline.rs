//! Draws a timeline with braille characters, because each of them shows two columns and four rows
//! of dots.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::widgets::canvas::{Canvas, Context, Line as Stroke};
use stormlog_format::{human_duration, whole};
use stormlog_report::{Columns, Measure, bytes};

use super::ticks;
use crate::tui::palette::{Palette, Pen};

/// The width of the memory axis left of the plot, in columns.
const SCALE: u16 = 10;
/// A line joins two neighbouring samples only if their distance is less than this many columns. The
/// samples on both sides of a sampling gap are farther apart and are not joined.
const JOINED: f64 = 12.0;
/// A memory limit above this multiple of the peak is not drawn, because it would flatten the curve.
const NEAR: i64 = 4;

/// A plot of memory over time, with all curves, marks and limits that are drawn in it.
pub(super) struct Timeline {
    /// The curves, each with one entry for each of the columns that [`columns_in`] counts; the last
    /// curve is drawn on top.
    pub(super) curves: Vec<(Pen, Columns)>,
    pub(super) span: (i64, i64),
    /// The time that the axis labels as zero.
    pub(super) start_ns: i64,
    pub(super) cursor_ns: Option<i64>,
    /// The times at which a vertical line marks an event, each with the colour of the line.
    pub(super) marks: Vec<(i64, Color)>,
    /// The bytes at which a dotted horizontal line is drawn (such as an alert limit), each with the
    /// colour of the line.
    pub(super) levels: Vec<(i64, Color)>,
    /// The memory limit of the device or host in bytes, if it is known.
    pub(super) limit: Option<i64>,
    pub(super) palette: Palette,
}

/// The part of a plot's area in which curves are drawn, without the memory axis and the time axis.
pub(super) fn dots(area: Rect) -> Rect {
    let [upper, _] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    let [_, plot] =
        Layout::horizontal([Constraint::Length(SCALE), Constraint::Min(1)]).areas(upper);
    plot
}

/// The number of columns of dots in a plot that is drawn in this area.
pub(super) fn columns_in(area: Rect) -> usize {
    usize::from(dots(area).width) * 2
}

impl Timeline {
    /// A plot of one curve, the used memory, without marks and limits. The time axis begins at zero.
    pub(super) fn of_used(columns: Columns, span: (i64, i64), palette: Palette) -> Self {
        Self {
            curves: vec![(palette.pen(Measure::Used), columns)],
            span,
            start_ns: span.0,
            cursor_ns: None,
            marks: Vec::new(),
            levels: Vec::new(),
            limit: None,
            palette,
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let plot = dots(area);
        let count = columns_in(area);
        let curves = self.curves.iter();
        let values = curves.flat_map(|(_, columns)| columns.iter().flatten());
        let peak = values.map(|(_, high)| *high).max().unwrap_or(0).max(1);
        let limit = self
            .limit
            .filter(|limit| *limit > 0 && limit / NEAR <= peak);
        let height = peak.max(limit.unwrap_or(0)) as f64 * 1.05;
        let length = (self.span.1.saturating_sub(self.span.0)).max(1) as f64;
        let x = |time: i64| (time.saturating_sub(self.span.0)) as f64 / length * count as f64;
        let canvas = Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, count as f64])
            .y_bounds([0.0, height])
            .paint(|context| {
                for (value, colour) in &self.levels {
                    let level = *value as f64;
                    for at in (0..count).step_by(4) {
                        let at = at as f64 + 0.5;
                        context.draw(&Stroke::new(at, level, at, level, *colour));
                    }
                }
                if let Some(limit) = limit {
                    let (level, colour) = (limit as f64, self.palette.severity_colour("critical"));
                    context.draw(&Stroke::new(0.5, level, count as f64 - 0.5, level, colour));
                }
                for (time, colour) in &self.marks {
                    let at = x(*time).min(count as f64 - 0.5);
                    context.draw(&Stroke::new(at, 0.0, at, height, *colour));
                }
                context.layer();
                for (pen, columns) in &self.curves {
                    curve(context, *pen, columns);
                }
                if let Some(cursor) = self.cursor_ns {
                    context.layer();
                    let at = x(cursor);
                    context.draw(&Stroke::new(at, 0.0, at, height, Color::Reset));
                }
            });
        frame.render_widget(canvas, plot);
        self.values(frame, area, height, limit);
        self.times(frame, area, plot);
    }

    /// Draws the ticks of the memory axis, and the memory limit.
    fn values(&self, frame: &mut Frame<'_>, area: Rect, height: f64, limit: Option<i64>) {
        let rows = area.height.saturating_sub(1);
        let mut taken = Vec::new();
        let mut label = |value: i64, text: String, style: Style| {
            let row = row_of(value, height, rows);
            // If several labels would be in one row, only the first is drawn; the memory limit
            // comes first, then the ticks from the lowest up.
            if taken.contains(&row) {
                return;
            }
            taken.push(row);
            let line = Rect {
                y: area.y + row,
                width: SCALE.min(area.width),
                height: 1,
                ..area
            };
            let width = usize::from(SCALE) - 1;
            let text = format!("{text:>width$}┤");
            frame.render_widget(Paragraph::new(Line::styled(text, style)), line);
        };
        if let Some(limit) = limit {
            let style = self.palette.severity("critical");
            label(limit, "limit".to_owned(), style);
        }
        for value in ticks::of_bytes(height, rows) {
            label(value, bytes::human(value), self.palette.muted());
        }
    }

    /// Draws the ticks of the time axis.
    fn times(&self, frame: &mut Frame<'_>, area: Rect, plot: Rect) {
        let width = usize::from(plot.width);
        let from = self.span.0.saturating_sub(self.start_ns);
        let to = self.span.1.saturating_sub(self.start_ns);
        let mut text = String::new();
        for (column, time) in ticks::of_time(from, to, width) {
            let label = format!("╵{}", human_duration(time));
            let used = text.chars().count();
            if column < used || column + label.chars().count() > width {
                continue;
            }
            text.extend(std::iter::repeat_n(' ', column - used));
            text += &label;
        }
        let below = Rect {
            x: plot.x,
            y: area.y + area.height.saturating_sub(1),
            width: plot.width,
            height: 1,
        };
        let line = Line::styled(text, self.palette.muted());
        frame.render_widget(Paragraph::new(line), below);
    }
}

/// The row of the plot in which a value is drawn, counted from the top.
fn row_of(value: i64, height: f64, rows: u16) -> u16 {
    let share = (1.0 - value as f64 / height).clamp(0.0, 1.0);
    let row = u16::try_from(whole(share * f64::from(rows)));
    row.unwrap_or(rows).min(rows.saturating_sub(1))
}

fn curve(context: &mut Context<'_>, pen: Pen, columns: &Columns) {
    let mut last: Option<(f64, f64)> = None;
    for (index, column) in columns.iter().enumerate() {
        let Some((low, high)) = column else { continue };
        let (at, low, high) = (index as f64 + 0.5, *low as f64, *high as f64);
        if index % pen.every != 0 {
            continue;
        }
        // The points of a dotted line are not joined by strokes.
        let joined = last.filter(|last| pen.every == 1 && at - last.0 < JOINED);
        if let Some((before, level)) = joined {
            context.draw(&Stroke::new(before, level, at, low, pen.colour));
        }
        context.draw(&Stroke::new(at, low, at, high, pen.colour));
        last = Some((at, high));
    }
}
