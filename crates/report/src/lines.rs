//! Draws the memory of a track over time inside a plot, as lines and as shaded areas.

use crate::measure::{Measure, UNKNOWN};
use crate::reduce;
use crate::scale::{TimeScale, ValueScale};
use crate::scene::{Point, Scene, Stroke};
use crate::theme::Ink;
use crate::track::DrawnTrack;

/// The points, in pixels, of the line through values at the given positions on the x axis. The line
/// is split where a value is unknown, or where two positions are farther apart than `gap`.
pub(crate) fn pieces(
    (positions, values): (&[i64], &[i64]),
    x: TimeScale,
    y: ValueScale,
    gap: i64,
) -> Vec<Vec<Point>> {
    let to_pixels = |piece: Vec<(i64, i64)>| {
        let points = piece.into_iter();
        points.map(|(at, bytes)| (x.x(at), y.y(bytes))).collect()
    };
    let pieces = reduce::pieces(positions, values, x, gap);
    pieces.into_iter().map(to_pixels).collect()
}

/// Draws a measure of a track (such as the allocated bytes) over time as a line, which is split where
/// a value is unknown or samples are missing.
pub(crate) fn line(
    scene: &mut Scene,
    track: &DrawnTrack,
    measure: Measure,
    time: TimeScale,
    value: ValueScale,
    stroke: Stroke,
) {
    let range = track.within(time.span);
    let samples = (&track.times()[range.clone()], &track.values(measure)[range]);
    let own_scale = TimeScale {
        span: track.own_span(time.span),
        ..time
    };
    scene.lines(pieces(samples, own_scale, value, track.gap_ns()), stroke);
}

/// Fills the area between the curves of two measures, `upper` and `lower`, where `upper` has the
/// higher value. Without `lower`, the area between `upper` and zero is filled.
pub(crate) fn between(
    scene: &mut Scene,
    track: &DrawnTrack,
    (upper, lower): (Measure, Option<Measure>),
    time: TimeScale,
    value: ValueScale,
    fill: Ink,
) {
    let edges = edges(track, upper, lower, time);
    let mut open: Vec<(f64, f64, f64)> = Vec::new();
    for edge in edges {
        match edge {
            Some((x, high, low)) => open.push((x, value.y(high), value.y(low.min(high)))),
            None => close(scene, &mut open, fill),
        }
    }
    close(scene, &mut open, fill);
}

/// The edges of a filled area in order of time, as x position, upper value and lower value; `None`
/// where the area is interrupted.
type Edges = Vec<Option<(f64, i64, i64)>>;

/// Computes one edge of the filled area for each pixel column that has samples.
fn edges(track: &DrawnTrack, upper: Measure, lower: Option<Measure>, time: TimeScale) -> Edges {
    let mut edges: Edges = Vec::new();
    let mut last: Option<i64> = None;
    for index in track.within(time.span) {
        let at = track.times()[index];
        let paused = last.is_some_and(|last| at.saturating_sub(last) > track.gap_ns());
        last = Some(at);
        let high = track.values(upper)[index];
        let low = lower.map_or(0, |lower| track.values(lower)[index]);
        let known = high != UNKNOWN && low != UNKNOWN;
        let x = time.x(track.shared_ns(at));
        match edges.last_mut() {
            // Only the highest value of each pixel column is drawn. A missing sample inside a pixel
            // column would not be visible, so it does not interrupt the area.
            Some(Some(edge)) if known && x.floor() <= edge.0.floor() => {
                *edge = (edge.0, edge.1.max(high), edge.2.max(low));
                continue;
            }
            _ => {}
        }
        if paused || !known {
            edges.push(None);
        }
        if known {
            edges.push(Some((x, high, low)));
        }
    }
    edges
}

/// Draws the collected edges (x position, upper y and lower y in pixels) as one filled polygon, and
/// removes all edges from the list.
fn close(scene: &mut Scene, edges: &mut Vec<(f64, f64, f64)>, fill: Ink) {
    if edges.iter().any(|(_, high, low)| high < low) {
        let above = edges.iter().map(|(x, high, _)| (*x, *high));
        let below = edges.iter().rev().map(|(x, _, low)| (*x, *low));
        let points: Vec<Point> = above.chain(below).collect();
        scene.polygon(points, fill);
    }
    edges.clear();
}
