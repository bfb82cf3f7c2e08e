//! A timeline in braille: two columns and four rows of dots to a character.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::widgets::canvas::{Canvas, Context, Line as Stroke};
use stormlog_report::{bytes, time};

use crate::tui::palette::{Palette, Pen};
use crate::tui::points::Columns;

/// Room for the numbers on the left.
const SCALE: u16 = 9;
/// Between sparse samples the line continues for this many columns; a sampling gap is wider
/// than this by far.
const JOINED: f64 = 12.0;

/// What to draw.
pub(super) struct Timeline<'a> {
    /// The curves for a number of columns, the last one on top.
    pub(super) curves: &'a dyn Fn(usize) -> Vec<(Pen, Columns)>,
    pub(super) span: (i64, i64),
    /// What counts as zero on the axis of time.
    pub(super) start_ns: i64,
    pub(super) cursor_ns: Option<i64>,
    /// Times of marks, each with its colour.
    pub(super) marks: Vec<(i64, Color)>,
    /// Values worth a line of their own, each with its colour.
    pub(super) levels: Vec<(i64, Color)>,
    pub(super) palette: Palette,
}

/// Where the dots are in the area of a timeline.
pub(super) fn dots(area: Rect) -> Rect {
    let [upper, _] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    let [_, plot] =
        Layout::horizontal([Constraint::Length(SCALE), Constraint::Min(1)]).areas(upper);
    plot
}

impl Timeline<'_> {
    #[expect(clippy::cast_precision_loss, reason = "dots are coarse")]
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let plot = dots(area);
        let count = usize::from(plot.width) * 2;
        let curves = (self.curves)(count);
        let values = curves
            .iter()
            .flat_map(|(_, columns)| columns.iter().flatten());
        let peak = values.map(|(_, high)| *high).max().unwrap_or(0).max(1);
        let height = peak as f64 * 1.05;
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
                for (time, colour) in &self.marks {
                    let at = x(*time).min(count as f64 - 0.5);
                    context.draw(&Stroke::new(at, 0.0, at, height, *colour));
                }
                context.layer();
                for (pen, columns) in &curves {
                    curve(context, *pen, columns);
                }
                if let Some(cursor) = self.cursor_ns {
                    context.layer();
                    let at = x(cursor);
                    context.draw(&Stroke::new(at, 0.0, at, height, Color::Reset));
                }
            });
        frame.render_widget(canvas, plot);
        self.axis(frame, area, peak);
    }

    fn axis(&self, frame: &mut Frame<'_>, area: Rect, peak: i64) {
        let muted = self.palette.muted();
        let scale = Rect {
            width: SCALE.min(area.width),
            height: area.height.saturating_sub(1),
            ..area
        };
        let top = Rect { height: 1, ..scale };
        frame.render_widget(Paragraph::new(Line::styled(bytes::human(peak), muted)), top);
        let low = Rect {
            y: scale.y + scale.height.saturating_sub(1),
            height: 1,
            ..scale
        };
        frame.render_widget(Paragraph::new(Line::styled("0 B", muted)), low);
        let from = time::span(self.span.0.saturating_sub(self.start_ns));
        let to = time::span(self.span.1.saturating_sub(self.start_ns));
        let before = usize::from(SCALE);
        let room = usize::from(area.width).saturating_sub(before + from.len());
        let text = format!("{:before$}{from}{to:>room$}", "");
        let below = Rect {
            y: area.y + area.height.saturating_sub(1),
            height: 1,
            ..area
        };
        frame.render_widget(Paragraph::new(Line::styled(text, muted)), below);
    }
}

#[expect(clippy::cast_precision_loss, reason = "dots are coarse")]
fn curve(context: &mut Context<'_>, pen: Pen, columns: &Columns) {
    let mut last: Option<(f64, f64)> = None;
    for (index, column) in columns.iter().enumerate() {
        let Some((low, high)) = column else { continue };
        let (at, low, high) = (index as f64 + 0.5, *low as f64, *high as f64);
        if index % pen.every != 0 {
            continue;
        }
        // A dotted line is not joined, or it would be no dotted one.
        let joined = last.filter(|last| pen.every == 1 && at - last.0 < JOINED);
        if let Some((before, level)) = joined {
            context.draw(&Stroke::new(before, level, at, low, pen.colour));
        }
        context.draw(&Stroke::new(at, low, at, high, pen.colour));
        last = Some((at, high));
    }
}
