//! Draws the memory of each rank over time: the counters of the allocator and of the device as
//! lines, and events and findings as marks.

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::chart::{self, BELOW, Key, LEFT, Look, RIGHT};
use crate::error::DrawError;
use crate::focus_chart;
use crate::host_lane::HostLane;
use crate::lines;
use crate::mark::Mark;
use crate::marks_lane::Lane;
use crate::measure::{Measure, UNKNOWN};
use crate::phase::Phase;
use crate::request::{self, FailedRequest};
use crate::scale::{Span, ValueScale, byte_ceiling};
use crate::scene::{Area, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::Theme;
use crate::track::DrawnTrack;

/// The largest number of ranks that get a panel. Ranks without a panel are named below the title.
pub(crate) const MOST_PANELS: usize = 4;
/// Height in pixels of the plot of host memory below the plots of devices.
const HOST_HEIGHT: u32 = 210;

/// A line of a timeline. One line is drawn for several measures if their values are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) measure: Measure,
    pub(crate) name: String,
}

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let shown = panels_of(story);
    let hosts: Vec<&DrawnTrack> = story.hosts.iter().collect();
    let per_panel = if shown.len() == 1 && story.focus.is_none() {
        360
    } else {
        220
    };
    let host_height = if hosts.is_empty() { 0 } else { HOST_HEIGHT };
    let mut subtitle = vec![story.subtitle()];
    if story.tracks.len() > MOST_PANELS {
        subtitle.push(format!(
            "{MOST_PANELS} of {} ranks, those with alerts or findings first; \
             --kind ranks shows all",
            story.tracks.len()
        ));
    }
    subtitle.extend(story.skew_note());
    let focus_height = if story.focus.is_some() {
        focus_chart::HEIGHT
    } else {
        0
    };
    let height = 170 + per_panel * shown.len() as u32 + host_height + focus_height;
    let (mut scene, mut rest) = chart::sheet(story, canvas, height, "Memory timeline", &subtitle);
    if let Some(focus) = &story.focus {
        let share = f64::from(focus_height) / f64::from(height);
        let first = rest.upper(f64::from(focus_height).min(rest.height * share.max(0.35)));
        focus.draw(&mut scene, first, span, story);
        rest = rest.below(first.bottom() + 8.0);
    }
    // Other processes are drawn where something was found, because they may explain it.
    let has_others = story.focus.is_some();
    let plots = chart::legend(&mut scene, rest, &keys_of(&shown, span, theme, has_others));

    let marks = story.marks();
    let (on_host, marks): (Vec<Mark>, Vec<Mark>) = marks
        .into_iter()
        .partition(|mark| mark.on_host && !hosts.is_empty());
    let lane_height = f64::from(host_height).min(plots.height / 2.0);
    let each = (plots.height - lane_height) / shown.len() as f64;
    let requests: Vec<Vec<FailedRequest>> = shown
        .iter()
        .map(|track| story.requests_for(track))
        .collect();
    // The y axes of all panels end at the same number of bytes, so that the panels can be compared.
    let tops = shown.iter().zip(&requests);
    let top = tops
        .map(|(track, requests)| peak_of(track, requests, span, has_others))
        .max();
    for (index, track) in shown.iter().enumerate() {
        let area = plots.strip(index, each);
        let is_last = index + 1 == shown.len() && hosts.is_empty();
        let panel = Panel {
            track,
            marks: &marks_for(&marks, track, index == 0),
            phases: &phases_for(&story.phases, track),
            span,
            name: (shown.len() > 1).then(|| story.track_name(track)),
            time_axis: is_last,
            requests: &requests[index],
            top,
            has_others,
        };
        panel.draw(&mut scene, area);
    }
    if !hosts.is_empty() {
        let lane = HostLane {
            tracks: hosts,
            marks: &on_host,
            span,
        };
        let area = plots.below(plots.bottom() - lane_height);
        lane.draw(&mut scene, area);
    }
    Ok(scene)
}

/// The tracks that get a panel: all tracks if they are few, otherwise those with the most severe
/// marks. The track of the leading finding comes first.
pub(crate) fn panels_of(story: &Story) -> Vec<&DrawnTrack> {
    let mut tracks: Vec<&DrawnTrack> = story.tracks.iter().collect();
    if tracks.len() > MOST_PANELS {
        let severity = |track: &DrawnTrack| {
            let mine = story
                .marks
                .iter()
                .filter(|mark| mark.rank == Some(track.rank));
            mine.map(|mark| mark.severity).max()
        };
        // The sort is stable, so that tracks of equal severity stay in order of rank.
        tracks.sort_by_cached_key(|track| std::cmp::Reverse(severity(track)));
        tracks.truncate(MOST_PANELS.max(1));
    }
    if let Some(focus) = &story.focus {
        tracks.sort_by_key(|track| !focus.is_of(track));
    }
    tracks
}

/// The highest value drawn for a track. A failed allocation raises this value to at most one and a
/// half times the capacity of the device, or one and a half times the peak if the peak is higher. A
/// bar that is higher than the plot is cut at its top.
fn peak_of(track: &DrawnTrack, requests: &[FailedRequest], span: Span, has_others: bool) -> i64 {
    let most = |measure| track.highest(measure, span);
    let measures = [
        Measure::Allocated,
        Measure::Reserved,
        used_measure(track, has_others),
    ];
    let peak = measures.into_iter().filter_map(most).max().unwrap_or(0);
    let highest = most(Measure::Capacity).unwrap_or(0).max(peak);
    let tops = requests.iter().map(|request| request.top());
    let tried = tops.max().unwrap_or(0);
    peak.max(tried.min(highest.saturating_mul(3) / 2))
}

/// The measure of the upper edge of the drawn memory: with or without other processes.
fn used_measure(track: &DrawnTrack, has_others: bool) -> Measure {
    if track.knows_own() && !has_others {
        Measure::Own
    } else {
        Measure::Used
    }
}

/// The marks of a track's rank. Marks that concern all ranks are drawn on the first panel.
pub(crate) fn marks_for(marks: &[Mark], track: &DrawnTrack, is_first: bool) -> Vec<Mark> {
    let mine = |mark: &&Mark| mark.rank.map_or(is_first, |rank| rank == track.rank);
    marks.iter().filter(mine).cloned().collect()
}

/// The phases of a track's rank, with their times on the shared clock of all ranks.
pub(crate) fn phases_for(phases: &[Phase], track: &DrawnTrack) -> Vec<Phase> {
    let mine = phases.iter().filter(|phase| phase.rank == track.rank);
    mine.map(|phase| Phase {
        start_ns: track.shared_ns(phase.start_ns),
        end_ns: track.shared_ns(phase.end_ns),
        ..phase.clone()
    })
    .collect()
}

/// The lines to draw for a track: one per known measure; measures with equal values share a line.
pub(crate) fn series_of(track: &DrawnTrack) -> Vec<Series> {
    let is_known = |measure: &Measure| track.knows(*measure);
    if track.is_host() {
        // Host memory is drawn as one line: the memory that the kernel cannot reclaim.
        let known = [Measure::Allocated, Measure::Reserved, Measure::Used];
        let measure = known.into_iter().find(is_known);
        return measure
            .map(|measure| Series {
                measure,
                name: "host memory".to_owned(),
            })
            .into_iter()
            .collect();
    }
    let mut series: Vec<Series> = Vec::new();
    let measures = [Measure::Used, Measure::Reserved, Measure::Allocated];
    for measure in measures.into_iter().filter(is_known) {
        let name = measure.as_str();
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

pub(crate) fn keys_of(
    tracks: &[&DrawnTrack],
    span: Span,
    theme: Theme,
    has_others: bool,
) -> Vec<Key> {
    let Some(first) = tracks.first() else {
        return Vec::new();
    };
    let mut series = series_of(first);
    series.retain(|series| is_drawn(first, series, has_others));
    let peak = |measure: Measure| {
        let peaks = tracks.iter().filter_map(|track| track.peak(measure, span));
        peaks.max()
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
    let devices: Vec<&&DrawnTrack> = tracks.iter().filter(|track| !track.is_host()).collect();
    let cached = devices
        .iter()
        .filter_map(|track| most_cached(track, span))
        .max();
    let hidden = if devices.iter().all(|track| track.knows_own()) {
        "hidden: this process outside the allocator"
    } else {
        "hidden: outside the allocator"
    };
    let bands = [
        (Measure::Reserved, "cached", cached),
        (Measure::Hidden, hidden, peak(Measure::Hidden)),
        (
            Measure::Others,
            "other processes and driver",
            peak(Measure::Others),
        ),
    ];
    for (measure, name, peak) in bands {
        if let Some(peak) = peak.filter(|peak| *peak > 0 && !devices.is_empty()) {
            let is_left_out = measure == Measure::Others && !has_others;
            let left_out = if is_left_out { ", not drawn" } else { "" };
            keys.push(Key {
                ink: theme.measure(measure).with_opacity(opacity_of(measure)),
                text: format!("{name} (peak {}{left_out})", human(peak)),
                look: Look::Patch,
            });
        }
    }
    if let Some(capacity) = peak(Measure::Capacity) {
        let tops = tracks
            .iter()
            .map(|track| peak_of(track, &[], span, has_others));
        let is_above = capacity > tops.max().unwrap_or(0).saturating_mul(3) / 2;
        let above = if is_above { ", above the axis" } else { "" };
        keys.push(Key {
            ink: theme.measure(Measure::Capacity),
            text: format!("capacity {}{above}", human(capacity)),
            look: Look::Dashed,
        });
    }
    keys
}

/// Whether a line is drawn: without other processes, the memory in use on the whole device is not.
pub(crate) fn is_drawn(track: &DrawnTrack, series: &Series, has_others: bool) -> bool {
    has_others || series.measure != Measure::Used || used_measure(track, false) == Measure::Used
}

/// The highest number of bytes that the allocator held in its cache: reserved minus allocated.
fn most_cached(track: &DrawnTrack, span: Span) -> Option<i64> {
    let range = track.within(span);
    let reserved = &track.values(Measure::Reserved)[range.clone()];
    let pairs = reserved
        .iter()
        .zip(&track.values(Measure::Allocated)[range]);
    let known =
        pairs.filter(|(reserved, allocated)| **reserved != UNKNOWN && **allocated != UNKNOWN);
    known
        .map(|(reserved, allocated)| reserved.saturating_sub(*allocated))
        .max()
}

/// The opacity (0 to 1) of the filled band below the line of a measure.
fn opacity_of(measure: Measure) -> f32 {
    match measure {
        Measure::Allocated => 0.22,
        Measure::Reserved => 0.26,
        Measure::Others => 0.18,
        _ => 0.30,
    }
}

/// The plot of one track: the memory of one device, or of the host, of a rank over time.
pub(crate) struct Panel<'a> {
    pub(crate) track: &'a DrawnTrack,
    pub(crate) marks: &'a [Mark],
    pub(crate) phases: &'a [Phase],
    pub(crate) span: Span,
    pub(crate) name: Option<String>,
    pub(crate) time_axis: bool,
    pub(crate) requests: &'a [FailedRequest],
    /// The highest value of all panels, so that their y axes have the same scale; `None` means that
    /// the y axis fits the highest value of this panel.
    pub(crate) top: Option<i64>,
    /// Whether the memory of other processes on the device is drawn, if it is known.
    pub(crate) has_others: bool,
}

impl Panel<'_> {
    pub(crate) fn draw(&self, scene: &mut Scene, area: Area) {
        let below = if self.time_axis { BELOW } else { 14.0 };
        let time = chart::time_scale(area.inset(LEFT, 0.0, RIGHT, below), self.span);
        let lane = Lane::new(self.marks, time);
        let above = lane.height() + chart::phases_height(self.phases);
        let above = above.min(area.height / 2.0);
        let plot = area.inset(LEFT, above + 4.0, RIGHT, below);

        let own_peak = || peak_of(self.track, self.requests, self.span, self.has_others);
        let peak = self.top.unwrap_or_else(own_peak);
        let capacity = self.track.highest(Measure::Capacity, self.span);
        let fits = capacity.filter(|capacity| *capacity <= peak.saturating_mul(3) / 2);
        let top = byte_ceiling(peak.max(fits.unwrap_or(0)) as f64, 8);
        let value = chart::byte_axis(scene, plot, (0.0, top));
        chart::phase_bands(scene, plot, self.span, self.phases);
        chart::sampling_gaps(scene, plot, self.span, &self.track.gaps());
        self.lines(scene, time, value);
        if let Some(fits) = fits {
            capacity_line(scene, plot, value, fits);
        }
        let limits = self.requests.iter().filter_map(|request| request.limit);
        let limit = limits.min().filter(|limit| Some(*limit) < capacity);
        let mut taken = Vec::new();
        if let Some(limit) = limit.filter(|limit| *limit as f64 <= top) {
            taken.push(chart::process_limit(scene, plot, value, limit));
        }
        request::draw(scene, plot, (time, value), self.requests, taken);
        lane.draw(scene, plot, area.y, time);
        if let Some(name) = &self.name {
            let style = TextStyle::new(12.5, scene.theme.text()).bold();
            scene.text((plot.x + 8.0, plot.y + 18.0), name.clone(), style);
        }
        lane.note_unlabelled(scene, plot);
        if self.time_axis {
            chart::time_axis(scene, plot, self.span);
        }
    }

    fn lines(&self, scene: &mut Scene, time: crate::scale::TimeScale, value: ValueScale) {
        let mut series = series_of(self.track);
        series.retain(|series| is_drawn(self.track, series, self.has_others));
        let used_measure = if self.track.knows_own() {
            Measure::Own
        } else {
            Measure::Used
        };
        let bands = [
            (Measure::Allocated, Measure::Allocated, None),
            (
                Measure::Reserved,
                Measure::Reserved,
                Some(Measure::Allocated),
            ),
            (Measure::Hidden, used_measure, Some(Measure::Reserved)),
            (Measure::Others, Measure::Used, Some(Measure::Own)),
        ];
        let is_host = self.track.is_host();
        let drawn = match (is_host, self.has_others) {
            (true, _) => &bands[..1],
            (false, false) => &bands[..3],
            (false, true) => &bands[..],
        };
        for (measure, upper, lower) in drawn {
            let fill = scene
                .theme
                .measure(*measure)
                .with_opacity(opacity_of(*measure));
            lines::between(scene, self.track, (*upper, *lower), time, value, fill);
        }
        for line in series.iter().rev() {
            let stroke = Stroke::solid(scene.theme.measure(line.measure), 1.6);
            lines::line(scene, self.track, line.measure, time, value, stroke);
        }
    }
}

/// Draws the memory capacity of the device as a line.
fn capacity_line(scene: &mut Scene, plot: Area, value: ValueScale, capacity: i64) {
    let ink = scene.theme.measure(Measure::Capacity);
    let y = value.y(capacity);
    scene.line((plot.x, y), (plot.right(), y), Stroke::dashed(ink, 1.5));
}
