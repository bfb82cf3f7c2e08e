//! Draws allocations that failed with an out-of-memory error as bars; the height of a bar is the
//! number of bytes that were requested.

use stormlog_analysis::timeline::{Resource, Run};

use crate::bytes::human;
use crate::scale::{TimeScale, ValueScale};
use crate::scene::{Anchor, Area, Point, Scene, Stroke, TextStyle};
use crate::track::DrawnTrack;
use stormlog_analysis::detect::Severity;

/// Width in pixels of the bar that shows a failed allocation.
const WIDTH: f64 = 18.0;
/// The smallest height of a bar in pixels, so that it is visible even for a small request.
const LEAST_HEIGHT: f64 = 4.0;
/// Distance in pixels between the diagonal lines with which a bar is hatched.
const HATCH: f64 = 6.0;
/// The largest number of failed allocations that are drawn, starting with the first. The number is
/// limited because a program that catches out-of-memory errors may have very many failed
/// allocations.
const MOST: usize = 16;

/// An allocation of device memory that failed because the device was out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedRequest {
    pub(crate) rank: i64,
    pub(crate) device_id: i64,
    pub(crate) time_ns: i64,
    /// Bytes in live tensors when the allocation failed. If this number is unknown, the bytes that
    /// the allocator had reserved; if that is unknown too, the bytes used by all processes.
    pub(crate) in_use: i64,
    /// Bytes that the allocator had reserved when the allocation failed, if known.
    pub(crate) reserved: Option<i64>,
    pub(crate) requested: i64,
    /// The memory limit of the process, if it is lower than the memory of the device.
    pub(crate) limit: Option<i64>,
}

impl FailedRequest {
    /// The bytes that would have been in use if the allocation had succeeded.
    pub(crate) fn top(self) -> i64 {
        self.in_use.saturating_add(self.requested)
    }

    pub(crate) fn is_of(&self, track: &DrawnTrack) -> bool {
        self.rank == track.rank && self.device_id == track.device_id
    }

    pub(crate) fn label(self) -> String {
        format!("tried to allocate {}", human(self.requested))
    }
}

/// The failed allocations of a run whose requested size is known, in order of time.
pub(crate) fn requests_of(run: &Run) -> Vec<FailedRequest> {
    let mut requests = Vec::new();
    for track in &run.tracks {
        let Resource::Device(device_id) = track.resource() else {
            continue;
        };
        for oom in &track.ooms {
            let in_use = oom.allocated.or(oom.reserved).or(oom.used);
            let Some((requested, in_use)) = oom.requested.zip(in_use) else {
                continue;
            };
            requests.push(FailedRequest {
                rank: i64::from(track.rank),
                device_id,
                time_ns: oom.at_ns,
                in_use,
                reserved: oom.reserved,
                requested,
                limit: oom.limit,
            });
        }
    }
    requests.sort_by_key(|request| request.time_ns);
    requests.truncate(MOST);
    requests
}

/// Draws each failed allocation as a hatched bar that starts at the bytes in use. `labels` are the
/// areas of other labels in the plot, which stay free.
pub(crate) fn draw(
    scene: &mut Scene,
    plot: Area,
    (time, value): (TimeScale, ValueScale),
    requests: &[FailedRequest],
    mut labels: Vec<Area>,
) {
    let ink = scene.theme.severity(Severity::Critical);
    let style = TextStyle::new(12.0, ink);
    for request in requests {
        let right = time
            .x(request.time_ns)
            .clamp(plot.x + WIDTH.min(plot.width), plot.right());
        let bottom = value.y(request.in_use).max(plot.y + LEAST_HEIGHT);
        let top = value.y(request.top()).min(bottom - LEAST_HEIGHT);
        let bar = Area::new(right - WIDTH, top, WIDTH, bottom - top);
        scene.rect(bar, ink.with_opacity(0.12));
        scene.lines(hatch(bar), Stroke::solid(ink.with_opacity(0.7), 1.0));
        let outline = vec![
            (bar.x, bar.y),
            (bar.right(), bar.y),
            (bar.right(), bar.bottom()),
            (bar.x, bar.bottom()),
            (bar.x, bar.y),
        ];
        scene.lines(vec![outline], Stroke::solid(ink, 1.4));

        let text = style.fit(&request.label(), (plot.width - WIDTH - 12.0).max(1.0));
        let width = style.width(&text);
        let is_left = bar.x - 8.0 - width >= plot.x;
        let x = if is_left {
            bar.x - 8.0 - width
        } else {
            bar.right() + 8.0
        };
        let x = x.clamp(plot.x, (plot.right() - width).max(plot.x));
        let middle = f64::midpoint(bar.y, bar.bottom());
        let mut spot = Area::new(x - 3.0, middle - 8.0, width + 6.0, 16.0);
        spot.y = spot
            .y
            .clamp(plot.y, (plot.bottom() - spot.height).max(plot.y));
        let wanted = spot.y;
        while let Some(other) = labels.iter().find(|other| overlap(**other, spot)) {
            let below = other.bottom() + 1.0;
            if below + spot.height > plot.bottom() {
                spot.y = wanted;
                while let Some(other) = labels.iter().find(|other| overlap(**other, spot)) {
                    spot.y = other.y - spot.height - 1.0;
                }
                break;
            }
            spot.y = below;
        }
        labels.push(spot);
        scene.rect(spot, scene.theme.panel().with_opacity(0.8));
        let at = (spot.x + 3.0, spot.y + 12.0);
        scene.text(at, text, style.anchored(Anchor::Start));
    }
}

fn overlap(one: Area, other: Area) -> bool {
    one.x < other.right()
        && other.x < one.right()
        && one.y < other.bottom()
        && other.y < one.bottom()
}

/// Computes the diagonal lines that hatch an area; each line ends at the edges of the area.
fn hatch(area: Area) -> Vec<Vec<Point>> {
    let mut lines = Vec::new();
    let mut offset = HATCH;
    while offset < area.width + area.height {
        // Each diagonal starts at the left or lower edge of the area and ends at the upper or right
        // edge.
        let start = if offset <= area.height {
            (area.x, area.y + offset)
        } else {
            (area.x + offset - area.height, area.bottom())
        };
        let end = if offset <= area.width {
            (area.x + offset, area.y)
        } else {
            (area.right(), area.y + offset - area.width)
        };
        lines.push(vec![start, end]);
        offset += HATCH;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Span;
    use crate::scene::Shape;
    use crate::theme::Theme;

    #[test]
    fn a_request_at_the_edge_stays_inside_with_its_label() {
        let plot = Area::new(64.0, 20.0, 400.0, 200.0);
        let time = TimeScale {
            span: Span::new(0, 100),
            left: plot.x,
            width: plot.width,
        };
        let value = ValueScale {
            low: 0.0,
            high: 100.0,
            top: plot.y,
            height: plot.height,
        };
        for (time_ns, in_use, requested) in [(0, 0, 5), (101, 90, 1 << 40), (50, 100, 0)] {
            let mut scene = Scene::new(500, 240, Theme::Light);
            let request = FailedRequest {
                rank: 0,
                device_id: 0,
                time_ns,
                in_use,
                reserved: None,
                requested,
                limit: None,
            };
            draw(&mut scene, plot, (time, value), &[request], Vec::new());
            let mut texts = 0;
            for shape in &scene.shapes {
                let points = match shape {
                    Shape::Lines { pieces, .. } => pieces.concat(),
                    Shape::Rect { area, .. } => {
                        vec![(area.x + 3.0, area.y), (area.right() - 3.0, area.bottom())]
                    }
                    Shape::Text { at, .. } => {
                        texts += 1;
                        vec![*at]
                    }
                    _ => Vec::new(),
                };
                for (x, y) in points {
                    assert!(x >= plot.x - 0.01 && x <= plot.right() + 0.01, "{x}");
                    assert!(y >= plot.y - 0.01 && y <= plot.bottom() + 0.01, "{y}");
                }
            }
            assert_eq!(texts, 1);
        }
    }
}
