//! Memory of a rank over time: what the allocator and the device hold, and what happened.

use crate::bytes::human;
use crate::chart::{self, BELOW, Key, LEFT, Look, RIGHT};
use crate::error::DrawError;
use crate::lines;
use crate::mark::Mark;
use crate::marks_lane::Lane;
use crate::phase::Phase;
use crate::scale::{Span, ValueScale, byte_ceiling};
use crate::scene::{Anchor, Area, Scene, Stroke, TextStyle};
use crate::story::{Canvas, Story};
use crate::theme::Theme;
use crate::track::{Measure, Track, track_name};

/// More ranks than this are not stacked; the others are named below the title.
const MOST_PANELS: usize = 4;

/// A line of a timeline, possibly standing for several measures that are equal throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) measure: Measure,
    pub(crate) name: String,
}

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let shown = &story.tracks[..story.tracks.len().min(MOST_PANELS)];
    let per_panel = if shown.len() == 1 { 360 } else { 220 };
    let default_height = 170 + per_panel * shown.len() as u32;
    let height = canvas.height.unwrap_or(default_height);
    let mut scene = Scene::new(canvas.width, height, theme.background());
    let whole = Area::new(0.0, 0.0, f64::from(canvas.width), f64::from(height));
    let page = whole.inset(24.0, 18.0, 24.0, 14.0);

    let mut subtitle = vec![story.subtitle()];
    if story.tracks.len() > MOST_PANELS {
        subtitle.push(format!(
            "the first {MOST_PANELS} of {} ranks; --kind ranks shows all",
            story.tracks.len()
        ));
    }
    subtitle.extend(story.skew_note());
    let title = story.heading("Memory timeline");
    let y = chart::heading(&mut scene, page, theme, &title, &subtitle);
    let keys = keys_of(shown, span, theme);
    let rest = Area::new(page.x, y, page.width, page.bottom() - y);
    let y = chart::legend(&mut scene, rest, theme, &keys);

    let marks = story.shown_marks();
    let each = (page.bottom() - y) / shown.len() as f64;
    let several_devices = story.ranks().len() < story.tracks.len();
    for (place, track) in shown.iter().enumerate() {
        let area = Area::new(page.x, y + place as f64 * each, page.width, each);
        let is_last = place + 1 == shown.len();
        let panel = Panel {
            track,
            marks: &marks_for(&marks, track, place == 0),
            phases: &phases_for(&story.phases, track),
            span,
            name: (shown.len() > 1).then(|| track_name(track, several_devices)),
            time_axis: is_last,
        };
        panel.draw(&mut scene, area, theme);
    }
    Ok(scene)
}

/// The marks of a track's rank; marks about all ranks stand on the first panel.
pub(crate) fn marks_for(marks: &[Mark], track: &Track, is_first: bool) -> Vec<Mark> {
    let mine = |mark: &&Mark| mark.rank.map_or(is_first, |rank| rank == track.rank);
    marks.iter().filter(mine).cloned().collect()
}

/// The phases of a track's rank, on the shared clock.
pub(crate) fn phases_for(phases: &[Phase], track: &Track) -> Vec<Phase> {
    let mine = phases.iter().filter(|phase| phase.rank == track.rank);
    mine.map(|phase| Phase {
        start_ns: phase.start_ns.saturating_add(track.skew_ns),
        end_ns: phase.end_ns.saturating_add(track.skew_ns),
        ..phase.clone()
    })
    .collect()
}

/// The lines to draw of a track: measures that are known, equal ones as one.
pub(crate) fn series_of(track: &Track) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for measure in [Measure::Used, Measure::Reserved, Measure::Allocated] {
        let places = 0..track.times().len();
        if track.extremes(measure, places).is_none() {
            continue;
        }
        let name = match measure {
            Measure::Used if track.is_host() => "resident",
            measure => measure.name(),
        };
        let twin = series
            .iter_mut()
            .find(|other| track.values(other.measure) == track.values(measure));
        match twin {
            Some(twin) => twin.name = format!("{name} = {}", twin.name),
            None => series.push(Series {
                measure,
                name: name.to_owned(),
            }),
        }
    }
    series.reverse();
    series
}

pub(crate) fn keys_of(tracks: &[Track], span: Span, theme: Theme) -> Vec<Key> {
    let Some(first) = tracks.first() else {
        return Vec::new();
    };
    let series = series_of(first);
    let peak = |measure: Measure| {
        let peaks = tracks
            .iter()
            .filter_map(|track| track.extremes(measure, track.within(span)));
        peaks.map(|(_, high)| high).max()
    };
    let mut keys: Vec<Key> = series
        .iter()
        .map(|series| Key {
            ink: theme.measure(series.measure),
            text: match peak(series.measure) {
                Some(peak) => format!("{} (peak {})", series.name, human(peak)),
                None => series.name.clone(),
            },
            look: Look::Line,
        })
        .collect();
    let hidden = series.iter().any(|line| line.measure == Measure::Used);
    if let Some(peak) = peak(Measure::Hidden).filter(|peak| *peak > 0 && hidden) {
        keys.push(Key {
            ink: theme.measure(Measure::Hidden).with_opacity(0.35),
            text: format!("hidden (peak {})", human(peak)),
            look: Look::Patch,
        });
    }
    if let Some(capacity) = peak(Measure::Capacity) {
        keys.push(Key {
            ink: theme.measure(Measure::Capacity),
            text: format!("capacity {}", human(capacity)),
            look: Look::Dashed,
        });
    }
    keys
}

/// One rank's plot with its axis, bands and marks.
pub(crate) struct Panel<'a> {
    pub(crate) track: &'a Track,
    pub(crate) marks: &'a [Mark],
    pub(crate) phases: &'a [Phase],
    pub(crate) span: Span,
    pub(crate) name: Option<String>,
    pub(crate) time_axis: bool,
}

impl Panel<'_> {
    pub(crate) fn draw(&self, scene: &mut Scene, area: Area, theme: Theme) {
        let below = if self.time_axis { BELOW } else { 14.0 };
        let wide = area.inset(LEFT, 0.0, RIGHT, below);
        let lane = Lane::new(self.marks, chart::time_scale(wide, self.span));
        let above = lane.height() + chart::phases_height(self.phases);
        let above = above.min(area.height / 2.0);
        let plot = area.inset(LEFT, above + 4.0, RIGHT, below);
        let time = chart::time_scale(plot, self.span);

        let (peak, capacity) = self.levels();
        let fits = capacity.filter(|capacity| *capacity <= peak.saturating_mul(3) / 2);
        let top = byte_ceiling(peak.max(fits.unwrap_or(0)) as f64, 8);
        let value = chart::byte_axis(scene, plot, theme, (0.0, top));
        chart::phase_bands(scene, plot, theme, self.span, self.phases);
        chart::sampling_gaps(scene, plot, theme, self.span, &self.track.gaps());
        self.lines(scene, theme, time, value);
        capacity_line(scene, plot, theme, value, (capacity, fits));
        lane.draw(scene, plot, area.y, time, theme);
        if let Some(name) = &self.name {
            let style = TextStyle::new(12.5, theme.text()).bold();
            scene.text((plot.x + 8.0, plot.y + 18.0), name.clone(), style);
        }
        if lane.unlabelled() > 0 {
            let style = TextStyle::new(11.0, theme.muted()).anchored(Anchor::End);
            let text = format!("+{} marks without room for a label", lane.unlabelled());
            scene.text((plot.right() - 6.0, plot.bottom() - 6.0), text, style);
        }
        if self.time_axis {
            chart::time_axis(scene, plot, theme, self.span, self.span.from);
        }
    }

    /// The highest value drawn, and the capacity.
    fn levels(&self) -> (i64, Option<i64>) {
        let most = |measure| {
            let places = self.track.within(self.span);
            self.track.extremes(measure, places).map(|(_, high)| high)
        };
        let measures = [Measure::Allocated, Measure::Reserved, Measure::Used];
        let peak = measures.into_iter().filter_map(most).max().unwrap_or(0);
        (peak, most(Measure::Capacity))
    }

    fn lines(
        &self,
        scene: &mut Scene,
        theme: Theme,
        time: crate::scale::TimeScale,
        value: ValueScale,
    ) {
        let series = series_of(self.track);
        if series.iter().any(|line| line.measure == Measure::Used) {
            let fill = theme.measure(Measure::Hidden).with_opacity(0.28);
            let measures = (Measure::Used, Some(Measure::Reserved));
            lines::between(scene, self.track, measures, time, value, fill);
        }
        if series.iter().any(|line| line.measure == Measure::Allocated) {
            let fill = theme.measure(Measure::Allocated).with_opacity(0.10);
            let measures = (Measure::Allocated, None);
            lines::between(scene, self.track, measures, time, value, fill);
        }
        for line in series.iter().rev() {
            let stroke = Stroke::solid(theme.measure(line.measure), 1.6);
            lines::line(scene, self.track, line.measure, time, value, stroke);
        }
    }
}

/// The capacity as a line where it fits the axis, else as a note at the top.
fn capacity_line(
    scene: &mut Scene,
    plot: Area,
    theme: Theme,
    value: ValueScale,
    (capacity, fits): (Option<i64>, Option<i64>),
) {
    let ink = theme.measure(Measure::Capacity);
    if let Some(fits) = fits {
        let y = value.y(fits);
        scene.line((plot.x, y), (plot.right(), y), Stroke::dashed(ink, 1.5));
    } else if let Some(capacity) = capacity {
        let style = TextStyle::new(11.0, ink).anchored(Anchor::End);
        let text = format!("capacity {} is beyond this axis", human(capacity));
        scene.text((plot.right() - 6.0, plot.y + 21.0), text, style);
    }
}
