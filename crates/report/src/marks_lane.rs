//! Draws the marks of a chart: labels in rows above the plot that do not overlap, each with a line
//! down into the plot.

use stormlog_analysis::detect::Severity;
use stormlog_format::counted;

use crate::chart::LEFT;
use crate::mark::{Mark, MarkGroup, MarkKind, grouped};
use crate::scale::TimeScale;
use crate::scene::{Anchor, Area, Scene, Shape, Stroke, TextStyle};
use crate::theme::Theme;

const ROW: f64 = 17.0;
const ROWS: usize = 4;
/// The limit on the number of label rows. If no row has space for the label of a critical mark, the
/// label gets a new row, unless the limit is reached. The limit is this number of rows for the
/// label of an alert, and twice this number for the label of any other critical mark. The number of
/// rows is limited because a recording may have thousands of different marks.
const MOST_ROWS: usize = 12;
const LABEL: f64 = 12.0;
/// The largest width of a label, as a share of the plot's width; a longer label is cut.
const WIDEST: f64 = 0.42;
/// The largest number of lines drawn for one group of marks; more lines would hide the plot.
const MOST_LINES: usize = 400;

/// The labels of all marks with their positions. Labels are placed before the plot is drawn,
/// because the rows of labels above the plot reduce its height.
pub(crate) struct Lane {
    groups: Vec<MarkGroup>,
    /// For each group of marks: the row, the text, and the left and right edge of its label. `None`
    /// when no row had space for the label.
    placed: Vec<Option<(usize, String, f64, f64)>>,
    rows: usize,
}

/// The space that a placed label takes, and the x position of its mark.
struct Taken {
    row: usize,
    x: f64,
    left: f64,
    right: f64,
}

impl Taken {
    fn overlaps(&self, row: usize, left: f64, right: f64) -> bool {
        row == self.row && right + 8.0 >= self.left && left - 8.0 <= self.right
    }

    /// Whether the line of the placed mark would cross a label at the given row and position, or
    /// the line of a mark at `x` would cross the label of the placed mark.
    fn crosses(&self, row: usize, x: f64, left: f64, right: f64) -> bool {
        let through_mine = self.row < row && left < self.x && self.x < right;
        let through_theirs = row < self.row && self.left < x && x < self.right;
        through_mine || through_theirs
    }
}

impl Lane {
    /// Chooses a row and a position for the label of each group of marks, beginning with the most
    /// severe.
    pub(crate) fn new(marks: &[Mark], scale: TimeScale) -> Self {
        let groups = grouped(marks);
        let style = TextStyle::new(LABEL, Theme::Light.text());
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|index| {
            let first = &groups[*index].first;
            (std::cmp::Reverse(first.severity), first.time_ns)
        });
        let mut taken: Vec<Taken> = Vec::new();
        let mut placed = vec![None; groups.len()];
        for index in order {
            let group = &groups[index];
            let text = style.fit(&group.label(), scale.width * WIDEST);
            let width = style.width(&text);
            // The event that ended a run is recorded after the last sample, so its mark is moved to
            // the right edge of the plot.
            let (first_x, last_x) = (scale.left, scale.left + scale.width);
            let x = scale.x(group.first.time_ns).clamp(first_x, last_x);
            let fits = |(left, right): &(f64, f64)| {
                *left >= scale.left - LEFT && *right <= scale.left + scale.width + 8.0
            };
            // The label is placed to the right of its mark if there is space there, otherwise to
            // the left.
            let mut sides: Vec<(f64, f64)> =
                [(x - 6.0, x + 10.0 + width), (x - 10.0 - width, x + 6.0)]
                    .into_iter()
                    .filter(fits)
                    .collect();
            if sides.is_empty() {
                let left = (last_x - width - 16.0).max(first_x - LEFT);
                sides.push((left, left + width + 16.0));
            }
            let spots = || {
                sides
                    .iter()
                    .flat_map(|side| (0..ROWS).map(move |row| (row, *side)))
            };
            let free = |(row, (left, right)): &(usize, (f64, f64))| {
                taken
                    .iter()
                    .all(|other| !other.overlaps(*row, *left, *right))
            };
            let clear = |(row, (left, right)): &(usize, (f64, f64))| {
                taken
                    .iter()
                    .all(|other| !other.crosses(*row, x, *left, *right))
            };
            let best = spots()
                .find(|index| free(index) && clear(index))
                .or_else(|| spots().find(free))
                // If no row has space, a critical mark gets a new row, because it may be the event
                // that ended the run. If no row has space, marks that are not critical get no
                // label.
                .or_else(|| {
                    let below = taken.iter().map(|other| other.row + 1).max().unwrap_or(0);
                    let most = match group.first.kind {
                        MarkKind::Alert => MOST_ROWS,
                        _ => 2 * MOST_ROWS,
                    };
                    let is_critical = group.first.severity == Severity::Critical && below < most;
                    sides
                        .first()
                        .filter(|_| is_critical)
                        .map(|side| (below, *side))
                });
            if let Some((row, (left, right))) = best {
                taken.push(Taken {
                    row,
                    x,
                    left,
                    right,
                });
                placed[index] = Some((row, text, left, right));
            }
        }
        let rows = taken.iter().map(|other| other.row + 1).max().unwrap_or(0);
        Self {
            groups,
            placed,
            rows,
        }
    }

    /// The height in pixels that the rows of labels need above the plot.
    pub(crate) fn height(&self) -> f64 {
        match self.rows {
            0 => 0.0,
            rows => rows as f64 * ROW + 6.0,
        }
    }

    /// Draws the number of marks without a label in the lower right corner of the plot, unless every
    /// mark has a label.
    pub(crate) fn note_unlabelled(&self, scene: &mut Scene, plot: Area) {
        let text = match self.placed.iter().filter(|label| label.is_none()).count() {
            0 => return,
            count => counted(count, "unlabelled event"),
        };
        let style = TextStyle::new(11.0, scene.theme.muted()).anchored(Anchor::End);
        scene.text((plot.right() - 6.0, plot.bottom() - 6.0), text, style);
    }

    /// Draws a vertical line through the plot for each group of marks, and the rows of labels above
    /// the plot, the first of them at the y position `top`.
    pub(crate) fn draw(&self, scene: &mut Scene, plot: Area, top: f64, scale: TimeScale) {
        for (group, placed) in self.groups.iter().zip(&self.placed) {
            let ink = scene.theme.severity(group.first.severity);
            if let Some(end) = group.first.end_ns {
                let left = scale.x(group.first.time_ns).max(plot.x);
                let right = scale.x(end).min(plot.right());
                let band = Area::new(left, plot.y, (right - left).max(1.0), plot.height);
                scene.rect(band, ink.with_opacity(0.10));
            }
            let base = match placed {
                Some((row, ..)) => top + *row as f64 * ROW + 8.0,
                None => plot.y,
            };
            let first = scale.x(group.first.time_ns).clamp(plot.x, plot.right());
            scene.line(
                (first, base),
                (first, plot.bottom()),
                Stroke::dashed(ink.with_opacity(0.85), 1.2),
            );
            // The first mark of a group is drawn as a full line; the later marks of the group are
            // short ticks at the top of the plot.
            let mut ticks = Vec::new();
            let mut last = first;
            for time in group.times.iter().skip(1) {
                let x = scale.x(*time).min(plot.right());
                if (x - last).abs() >= 1.5 && ticks.len() < MOST_LINES {
                    ticks.push(vec![(x, plot.y), (x, plot.y + 7.0)]);
                    last = x;
                }
            }
            scene.lines(ticks, Stroke::solid(ink.with_opacity(0.8), 1.2));
            if let Some((row, text, left, right)) = placed {
                let y = top + *row as f64 * ROW + 8.0;
                flag(scene, (first, y), group.first.severity);
                let style = TextStyle::new(LABEL, ink);
                if *left < first - 8.0 {
                    let style = style.anchored(Anchor::End);
                    scene.text((right - 16.0, y + 4.0), text.clone(), style);
                } else {
                    scene.text((left + 16.0, y + 4.0), text.clone(), style);
                }
            }
        }
    }
}

/// Draws a symbol that shows the severity without colour: a diamond, a triangle or a disc.
fn flag(scene: &mut Scene, (x, y): (f64, f64), severity: Severity) {
    let ink = scene.theme.severity(severity);
    match severity {
        Severity::Critical => scene.polygon(
            vec![(x, y - 6.0), (x + 5.5, y), (x, y + 6.0), (x - 5.5, y)],
            ink,
        ),
        Severity::Warning => scene.polygon(
            vec![(x, y - 5.5), (x + 5.5, y + 4.5), (x - 5.5, y + 4.5)],
            ink,
        ),
        Severity::Info => scene.shapes.push(Shape::Circle {
            centre: (x, y),
            radius: 4.0,
            fill: ink,
            outline: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_unlabelled_events_is_easy_to_read() {
        let note = |count: usize| {
            let lane = Lane {
                groups: Vec::new(),
                placed: vec![None; count],
                rows: 0,
            };
            let mut scene = Scene::new(100, 100, Theme::Light);
            lane.note_unlabelled(&mut scene, Area::new(0.0, 0.0, 100.0, 100.0));
            match scene.shapes.pop() {
                Some(Shape::Text { text, .. }) => text,
                _ => String::new(),
            }
        };
        assert_eq!(note(0), "");
        assert_eq!(note(1), "1 unlabelled event");
        assert_eq!(note(1234), "1,234 unlabelled events");
    }
}
