//! Draws hidden memory alone: device memory in use outside the framework's allocator.

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::chart::{self, BELOW, Key, LEFT, Look, RIGHT};
use crate::error::DrawError;
use crate::lines;
use crate::mark::Mark;
use crate::marks_lane::Lane;
use crate::measure::Measure;
use crate::scale::{Span, byte_ceiling};
use crate::scene::{Area, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::Theme;
use crate::track::DrawnTrack;

/// The largest number of lines in the plot; more lines could not be distinguished.
const MOST_LINES: usize = 8;

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let what = if story.tracks.iter().all(DrawnTrack::knows_own) {
        "used by this process minus allocator reserved: CUDA context, libraries"
    } else {
        "device used minus allocator reserved: CUDA context, libraries, other processes"
    };
    let mut subtitle = vec![story.subtitle(), what.into()];
    subtitle.extend(story.skew_note());
    let (mut scene, rest) = chart::sheet(story, canvas, 460, "Hidden device memory", &subtitle);
    let chosen = widest(&story.tracks, span);
    let keys = keys(story, &chosen, span, theme);
    let area = chart::legend(&mut scene, rest, &keys);
    panel(&mut scene, area, &chosen, &story.marks(), span);
    Ok(scene)
}

/// The tracks to draw, in order of rank: those that reach the most hidden memory in the time span,
/// at most [`MOST_LINES`].
pub(crate) fn widest(tracks: &[DrawnTrack], span: Span) -> Vec<&DrawnTrack> {
    let mut known: Vec<(i64, &DrawnTrack)> = tracks
        .iter()
        .filter_map(|track| Some((track.highest(Measure::Hidden, span)?, track)))
        .collect();
    known.sort_by_key(|(high, track)| (std::cmp::Reverse(*high), track.rank));
    known.truncate(MOST_LINES);
    known.sort_by_key(|(_, track)| (track.rank, track.device_id));
    known.into_iter().map(|(_, track)| track).collect()
}

fn keys(story: &Story, tracks: &[&DrawnTrack], span: Span, theme: Theme) -> Vec<Key> {
    let one = tracks.len() == 1;
    let key = |(index, track): (usize, &&DrawnTrack)| {
        let values = track.values(Measure::Hidden);
        let values = values[track.within(span)].iter().copied();
        let mut known = values.filter(|value| *value != crate::measure::UNKNOWN);
        let first = known.next();
        let last = known.next_back().or(first);
        let peak = track.highest(Measure::Hidden, span)?;
        let name = if one {
            "hidden".to_owned()
        } else {
            story.track_name(track)
        };
        Some(Key {
            ink: theme.line(Measure::Hidden, index, one),
            text: format!(
                "{name}: first {first}, last {last}, peak {peak}",
                first = human(first?),
                last = human(last?),
                peak = human(peak)
            ),
            look: Look::Line,
        })
    };
    tracks.iter().enumerate().filter_map(key).collect()
}

/// Draws the plot of hidden memory, one line per track, with its axes and marks.
pub(crate) fn panel(
    scene: &mut Scene,
    area: Area,
    tracks: &[&DrawnTrack],
    marks: &[Mark],
    span: Span,
) {
    let time = chart::time_scale(area.inset(LEFT, 0.0, RIGHT, BELOW), span);
    let lane = Lane::new(marks, time);
    let above = lane.height().min(area.height / 2.0) + 4.0;
    let plot = area.inset(LEFT, above, RIGHT, BELOW);
    let extremes = tracks
        .iter()
        .filter_map(|track| track.extremes(Measure::Hidden, track.within(span)));
    let (low, high) = extremes.fold((0, 0), |(low, high), (least, most)| {
        (low.min(least), high.max(most))
    });
    let top = byte_ceiling(high as f64, 7);
    let bottom = if low < 0 {
        -byte_ceiling(-(low as f64), 2)
    } else {
        0.0
    };
    let value = chart::byte_axis(scene, plot, (bottom, top));
    if tracks.is_empty() {
        let style = TextStyle::new(13.0, scene.theme.muted());
        let text = "unknown: used or reserved memory not recorded, or processes share the device";
        scene.text(
            (plot.x + 16.0, plot.y + 28.0),
            style.fit(text, plot.width - 32.0),
            style,
        );
    }
    if let [track] = tracks {
        chart::sampling_gaps(scene, plot, span, &track.gaps());
        let fill = scene.theme.measure(Measure::Hidden).with_opacity(0.22);
        let measures = (Measure::Hidden, None);
        lines::between(scene, track, measures, time, value, fill);
    }
    for (index, track) in tracks.iter().enumerate() {
        let ink = scene.theme.line(Measure::Hidden, index, tracks.len() == 1);
        let stroke = Stroke::solid(ink, 1.6);
        lines::line(scene, track, Measure::Hidden, time, value, stroke);
    }
    lane.draw(scene, plot, area.y, time);
    chart::time_axis(scene, plot, span);
}
