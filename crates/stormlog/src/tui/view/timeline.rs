//! A timeline in braille: two columns and four rows of dots to a character.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::widgets::canvas::{Canvas, Line as Stroke};
use stormlog_report::{Measure, Track, bytes, time};

use crate::tui::palette::Palette;

/// What to draw of a track.
pub(super) struct Timeline<'a> {
    pub(super) track: &'a Track,
    pub(super) measures: &'a [Measure],
    pub(super) span: (i64, i64),
    pub(super) cursor_ns: Option<i64>,
    /// Times of marks, each with its colour.
    pub(super) marks: Vec<(i64, Color)>,
    pub(super) palette: Palette,
}

impl Timeline<'_> {
    #[expect(clippy::cast_precision_loss, reason = "dots are coarse")]
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = [Constraint::Min(1), Constraint::Length(1)];
        let [upper, below] = Layout::vertical(rows).areas(area);
        let columns = [Constraint::Length(9), Constraint::Min(1)];
        let [scale, plot] = Layout::horizontal(columns).areas(upper);
        let count = usize::from(plot.width) * 2;
        let lines: Vec<_> = self
            .measures
            .iter()
            .map(|measure| (*measure, self.track.columns(*measure, self.span, count)))
            .collect();
        let values = lines
            .iter()
            .flat_map(|(_, columns)| columns.iter().flatten());
        let peak = values.map(|(_, high)| *high).max().unwrap_or(0).max(1);
        let height = peak as f64 * 1.05;
        let length = (self.span.1 - self.span.0).max(1) as f64;
        let x = |time: i64| (time - self.span.0) as f64 / length * count as f64;
        let canvas = Canvas::default()
            .marker(Marker::Braille)
            .x_bounds([0.0, count as f64])
            .y_bounds([0.0, height])
            .paint(|context| {
                for (time, colour) in &self.marks {
                    let at = x(*time).min(count as f64 - 0.5);
                    context.draw(&Stroke::new(at, 0.0, at, height, *colour));
                }
                context.layer();
                for (measure, columns) in &lines {
                    let colour = self.palette.measure(*measure);
                    let mut last: Option<(f64, f64)> = None;
                    for (place, column) in columns.iter().enumerate() {
                        let Some((low, high)) = column else { continue };
                        let (at, low, high) = (place as f64 + 0.5, *low as f64, *high as f64);
                        // Between sparse samples the line goes on; a pause in sampling is
                        // wider than this by far.
                        if let Some((before, level)) = last.filter(|last| at - last.0 < 12.0) {
                            context.draw(&Stroke::new(before, level, at, low, colour));
                        }
                        context.draw(&Stroke::new(at, low, at, high, colour));
                        last = Some((at, high));
                    }
                }
                if let Some(cursor) = self.cursor_ns {
                    context.layer();
                    let at = x(cursor);
                    context.draw(&Stroke::new(at, 0.0, at, height, Color::Reset));
                }
            });
        frame.render_widget(canvas, plot);
        self.axis(frame, scale, below, peak);
    }

    fn axis(&self, frame: &mut Frame<'_>, scale: Rect, below: Rect, peak: i64) {
        let muted = self.palette.muted();
        let top = Rect { height: 1, ..scale };
        frame.render_widget(Paragraph::new(Line::styled(bytes::human(peak), muted)), top);
        let low = Rect {
            y: scale.y + scale.height.saturating_sub(1),
            height: 1,
            ..scale
        };
        frame.render_widget(Paragraph::new(Line::styled("0 B", muted)), low);
        let Some((start, _)) = self.track.first_and_last_ns() else {
            return;
        };
        let from = time::span(self.span.0 - start);
        let to = time::span(self.span.1 - start);
        let room = usize::from(below.width).saturating_sub(9 + from.len());
        let text = format!("{:9}{from}{to:>room$}", "");
        frame.render_widget(Paragraph::new(Line::styled(text, muted)), below);
    }
}
