//! Draws host memory in a lane below the device memory, on the same time axis.

use stormlog_format::counted;

use crate::bytes::human;
use crate::chart::{self, BELOW, LEFT, RIGHT};
use crate::lines;
use crate::mark::Mark;
use crate::marks_lane::Lane;
use crate::measure::Measure;
use crate::scale::{Span, byte_ceiling};
use crate::scene::{Area, Scene, Stroke, TextStyle};
use crate::theme::Ink;
use crate::track::DrawnTrack;

/// The largest number of ranks that are drawn in the lane; more lines could not be distinguished.
const MOST_LINES: usize = 8;
/// Height in pixels of the row with the name and the peaks of the lane.
const TITLE: f64 = 26.0;

/// The lane for host memory, with one line per rank. If there is only one line, the area below it
/// is filled.
pub(crate) struct HostLane<'a> {
    pub(crate) tracks: Vec<&'a DrawnTrack>,
    pub(crate) marks: &'a [Mark],
    pub(crate) span: Span,
}

impl HostLane<'_> {
    pub(crate) fn draw(&self, scene: &mut Scene, area: Area) {
        let time = chart::time_scale(area.inset(LEFT, 0.0, RIGHT, BELOW), self.span);
        let lane = Lane::new(self.marks, time);
        let above = TITLE + lane.height();
        let plot = area.inset(LEFT, above.min(area.height / 2.0), RIGHT, BELOW);
        let shown = &self.tracks[..self.tracks.len().min(MOST_LINES)];
        let most = |measure: Measure| {
            let peaks = shown
                .iter()
                .filter_map(|track| track.peak(measure, self.span));
            peaks.max()
        };
        let peak = most(Measure::Allocated).unwrap_or(0);
        let limit = most(Measure::Capacity).filter(|limit| *limit <= peak.saturating_mul(3) / 2);
        let top = byte_ceiling(peak.max(limit.unwrap_or(0)) as f64, 4);
        let value = chart::byte_axis(scene, plot, (0.0, top));
        if let [track] = shown {
            chart::sampling_gaps(scene, plot, self.span, &track.gaps());
            let fill = scene.theme.measure(Measure::Allocated).with_opacity(0.14);
            let measures = (Measure::Allocated, None);
            lines::between(scene, track, measures, time, value, fill);
            // Stormlog 0.4.0 stopped recording host memory when CUDA started. A line that ends
            // early therefore gets the text "recording ends here".
            let end = track.span().map(|own| time.x(own.to));
            if let Some(x) = end.filter(|x| *x < plot.x + plot.width * 0.7) {
                let style = TextStyle::new(11.0, scene.theme.muted());
                let text = style.fit("recording ends here", plot.right() - x - 12.0);
                scene.text((x + 8.0, plot.y + plot.height / 2.0), text, style);
            }
        }
        for (index, track) in shown.iter().enumerate() {
            let ink = scene
                .theme
                .line(Measure::Allocated, index, shown.len() == 1);
            let stroke = Stroke::solid(ink, 1.6);
            lines::line(scene, track, Measure::Allocated, time, value, stroke);
        }
        if let Some(limit) = limit {
            let y = value.y(limit);
            let stroke = Stroke::dashed(scene.theme.measure(Measure::Capacity), 1.5);
            scene.line((plot.x, y), (plot.right(), y), stroke);
        }
        lane.draw(scene, plot, area.y + TITLE, time);
        self.title(scene, area, shown);
        lane.note_unlabelled(scene, plot);
        chart::time_axis(scene, plot, self.span);
    }

    /// Draws the name of the lane and the peak of each line, in the colour of the line.
    fn title(&self, scene: &mut Scene, area: Area, shown: &[&DrawnTrack]) {
        let theme = scene.theme;
        let bold = TextStyle::new(12.5, theme.text()).bold();
        let y = area.y + 12.0;
        let mut x = area.x;
        let plain = TextStyle::new(12.0, theme.text());
        let muted = TextStyle::new(12.0, theme.muted());
        let mut put = |swatch: Option<Ink>, text: String, style: TextStyle| {
            if let Some(ink) = swatch {
                let stroke = Stroke::solid(ink, 2.5);
                scene.line((x, y - 4.0), (x + 16.0, y - 4.0), stroke);
                x += 22.0;
            }
            let text = style.fit(&text, (area.right() - x).max(0.0));
            let width = style.width(&text);
            scene.text((x, y), text, style);
            x += width + 14.0;
        };
        put(None, "host memory".to_owned(), bold);
        let has_parts = self.tracks.iter().all(|track| track.has_parts);
        let what = if has_parts {
            "process tree, anonymous + shared"
        } else {
            "resident"
        };
        put(None, what.to_owned(), muted);
        for (index, track) in shown.iter().enumerate() {
            let Some(peak) = track.peak(Measure::Allocated, self.span) else {
                continue;
            };
            let is_only = self.tracks.len() == 1;
            let text = if is_only {
                format!("peak {}", human(peak))
            } else {
                format!("rank {} peak {}", track.rank, human(peak))
            };
            let ink = theme.line(Measure::Allocated, index, is_only);
            put(Some(ink), text, plain);
        }
        if self.tracks.len() > shown.len() {
            let text = format!(
                "and {}",
                counted(self.tracks.len() - shown.len(), "more rank")
            );
            put(None, text, muted);
        }
    }
}
