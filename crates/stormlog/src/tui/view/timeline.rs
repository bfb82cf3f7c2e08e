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
use stormlog_report::{Columns, Curve, Measure, bytes};

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
    /// The value in bytes at the lower end of the memory axis; lower values are not drawn.
    pub(super) low: i64,
    /// Growth as a line, with its colour: time and bytes of its start and of its end.
    pub(super) trend: Option<([(i64, i64); 2], Color)>,
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
    /// A plot of the curve that stands for a run, with the growth and the start of what was found.
    pub(super) fn of_curve(
        curve: Curve,
        span: (i64, i64),
        start_ns: i64,
        palette: Palette,
    ) -> Self {
        let colour = curve.found.map_or(Color::Reset, |(severity, _)| {
            palette.severity_colour(severity.as_str())
        });
        let pen = Pen {
            every: 1,
            ..palette.pen(curve.measure)
        };
        Self {
            curves: vec![(pen, curve.columns)],
            start_ns,
            marks: curve.onset_ns.map(|at| (at, colour)).into_iter().collect(),
            low: curve.low,
            trend: curve.trend.map(|ends| (ends, colour)),
            ..Self::of_used(Vec::new(), span, palette)
        }
    }

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
            low: 0,
            trend: None,
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
        let trend = self.trend.map_or(0, |([_, to], _)| to.1);
        let low = self.low as f64;
        let most = peak.max(limit.unwrap_or(0)).max(trend) as f64;
        let height = most + 0.05 * (most - low).max(1.0);
        let length = (self.span.1.saturating_sub(self.span.0)).max(1) as f64;
        let x = |time: i64| (time.saturating_sub(self.span.0)) as f64 / length * count as f64;
        let canvas = Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, count as f64])
            .y_bounds([low, height])
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
                    context.draw(&Stroke::new(at, low, at, height, *colour));
                }
                context.layer();
                for (pen, columns) in &self.curves {
                    curve(context, *pen, columns, low);
                }
                if let Some(([from, to], colour)) = self.trend {
                    context.layer();
                    let (first, last) = ((x(from.0), from.1 as f64), (x(to.0), to.1 as f64));
                    // The growth is dotted, so that the curve below it stays visible.
                    let length = ((last.0 - first.0) / 4.0).max(1.0);
                    let mut share = 0.0;
                    while share <= 1.0 {
                        let at = first.0 + share * (last.0 - first.0);
                        let level = first.1 + share * (last.1 - first.1);
                        context.draw(&Stroke::new(at, level, at, level, colour));
                        share += 1.0 / length;
                    }
                }
                if let Some(cursor) = self.cursor_ns {
                    context.layer();
                    let at = x(cursor);
                    context.draw(&Stroke::new(at, low, at, height, Color::Reset));
                }
            });
        frame.render_widget(canvas, plot);
        self.values(frame, area, height, limit);
        self.times(frame, area, plot);
    }

    /// Draws the ticks of the memory axis, and the memory limit.
    fn values(&self, frame: &mut Frame<'_>, area: Rect, height: f64, limit: Option<i64>) {
        let rows = area.height.saturating_sub(1);
        let low = self.low as f64;
        let mut taken = Vec::new();
        let mut label = |value: i64, text: String, style: Style| {
            let row = row_of(value as f64 - low, height - low, rows);
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
        for value in ticks::of_bytes(low, height, rows) {
            label(
                value,
                exact_enough(value, (height - low) / f64::from(rows.max(1))),
                self.palette.muted(),
            );
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
fn row_of(value: f64, height: f64, rows: u16) -> u16 {
    let share = (1.0 - value / height).clamp(0.0, 1.0);
    let row = u16::try_from(whole(share * f64::from(rows)));
    row.unwrap_or(rows).min(rows.saturating_sub(1))
}

/// A tick's number. On an axis that does not start at zero, three digits may not tell two ticks apart,
/// so the number is printed in a smaller unit.
fn exact_enough(value: i64, per_row: f64) -> String {
    let short = bytes::human(value);
    let (unit, size) = [("MiB", 1_i64 << 20), ("KiB", 1 << 10), ("GiB", 1 << 30)]
        .into_iter()
        .find(|(_, size)| value >= *size && value / size < 10_000)
        .unwrap_or(("B", 1));
    if per_row * 200.0 < value as f64 && size > 1 {
        format!("{} {unit}", value / size)
    } else {
        short
    }
}

fn curve(context: &mut Context<'_>, pen: Pen, columns: &Columns, bottom: f64) {
    let mut last: Option<(f64, f64)> = None;
    for (index, column) in columns.iter().enumerate() {
        let Some((low, high)) = column else { continue };
        let (at, low, high) = (index as f64 + 0.5, (*low as f64).max(bottom), *high as f64);
        if high < bottom || index % pen.every != 0 {
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
