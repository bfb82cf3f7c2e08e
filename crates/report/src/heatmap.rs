//! Draws a heat map of ranks over time: how much memory each rank holds, and when ranks diverge.

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::chart::{self, BELOW, RIGHT};
use crate::error::DrawError;
use crate::grid::Grid;
use crate::measure::Measure;
use crate::scale::Span;
use crate::scene::{Anchor, Area, Scene, Shape, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::heat;
use crate::track::DrawnTrack;

/// The number of time columns in a heat map; more columns could not be distinguished.
pub(crate) const COLUMNS: usize = 300;
/// The number of colours in the heat map. Neighbouring cells of the same colour are drawn as one
/// shape.
const SHADES: usize = 64;
/// Space in pixels for the rank numbers left of the heat map.
const LEFT: f64 = 66.0;
/// Space in pixels for the colour scale right of the heat map.
const SCALE: f64 = 86.0;

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let rows = story.tracks.len() as u32;
    let measure = story.compared_measure();
    let mut subtitle = vec![
        story.subtitle(),
        format!("maximum {} per interval", measure.as_str()),
    ];
    subtitle.extend(story.skew_note());
    let height = 190 + (rows * 26).clamp(104, 420);
    let title = "Memory by rank and time";
    let (mut scene, area) = chart::sheet(story, canvas, height, title, &subtitle);
    panel(&mut scene, area, &story.tracks, measure, span);
    Ok(scene)
}

/// The values of the darkest and the lightest colour. The colours cover the range from the lowest
/// to the highest value of the heat map, so that small differences between ranks are visible.
pub(crate) fn range(grid: &Grid) -> (i64, i64) {
    let values = || grid.rows.iter().flatten().flatten().copied();
    let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    // When all values are nearly equal, the scale starts at zero, because otherwise the colours
    // would show only noise.
    if high.saturating_sub(low) < high / 20 {
        (0, high.max(1))
    } else {
        (low, high.max(low + 1))
    }
}

/// Draws the heat map of a measure (such as the allocated bytes), one row per track, with its axes
/// and the colour scale.
pub(crate) fn panel(
    scene: &mut Scene,
    area: Area,
    tracks: &[DrawnTrack],
    measure: Measure,
    span: Span,
) {
    let plot = area.inset(LEFT, 4.0, RIGHT + SCALE, BELOW);
    let grid = Grid::new(tracks, measure, span, COLUMNS);
    let range = range(&grid);
    // When there are more ranks than pixels, neighbouring ranks share a row, which shows the
    // highest value among them.
    let lines = tracks.len().min(plot.height as usize).max(1);
    let row_of = |rank: usize| grid.merged_index(rank, lines);
    let merged = grid.merged(lines);
    scene.rect(plot, scene.theme.grid());
    cells(scene, plot, &merged, range);
    rank_axis(scene, plot, tracks, row_of, lines);
    scale_of_colours(scene, plot, range, &merged);
    chart::time_axis(scene, plot, span);
}

fn cells(scene: &mut Scene, plot: Area, rows: &[Vec<Option<i64>>], range: (i64, i64)) {
    let shade = |value: i64| {
        let share = (value - range.0) as f64 / (range.1 - range.0) as f64;
        (share * (SHADES - 1) as f64)
            .round()
            .min((SHADES - 1) as f64) as usize
    };
    let height = plot.height / rows.len().max(1) as f64;
    let mut by_shade: Vec<Vec<Area>> = vec![Vec::new(); SHADES];
    for (line, row) in rows.iter().enumerate() {
        let width = plot.width / row.len().max(1) as f64;
        let mut index = 0;
        while index < row.len() {
            let shade_here = row[index].map(shade);
            let same = row[index..]
                .iter()
                .take_while(|cell| cell.map(shade) == shade_here)
                .count();
            if let Some(shade) = shade_here {
                by_shade[shade].push(Area::new(
                    plot.x + index as f64 * width,
                    plot.y + line as f64 * height,
                    same as f64 * width,
                    // A gap of one pixel separates the rows, unless a row is only a few pixels
                    // high.
                    if height > 6.0 { height - 1.0 } else { height },
                ));
            }
            index += same;
        }
    }
    for (shade, areas) in by_shade.into_iter().enumerate() {
        if !areas.is_empty() {
            let fill = heat(shade as f64 / (SHADES - 1) as f64);
            scene.shapes.push(Shape::Cells { areas, fill });
        }
    }
}

fn rank_axis(
    scene: &mut Scene,
    plot: Area,
    tracks: &[DrawnTrack],
    row_of: impl Fn(usize) -> usize,
    lines: usize,
) {
    let style = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::End);
    let height = plot.height / lines as f64;
    let mut free_from = plot.y;
    for (index, track) in tracks.iter().enumerate() {
        let y = plot.y + (row_of(index) as f64 + 0.5) * height + 4.0;
        if y - 4.0 < free_from {
            continue;
        }
        scene.text((plot.x - 8.0, y), track.rank.to_string(), style);
        free_from = y + if tracks.len() > 24 { 30.0 } else { 12.0 };
    }
    let style = TextStyle::new(12.0, scene.theme.muted()).anchored(Anchor::Middle);
    let middle = plot.y + plot.height / 2.0;
    scene.text((plot.x - 52.0, middle), "rank", style.upwards());
}

fn scale_of_colours(scene: &mut Scene, plot: Area, range: (i64, i64), rows: &[Vec<Option<i64>>]) {
    let bar = Area::new(plot.right() + 18.0, plot.y, 14.0, plot.height);
    let steps = 48;
    for step in 0..steps {
        let share = (f64::from(step) + 0.5) / f64::from(steps);
        let height = bar.height / f64::from(steps);
        let y = bar.bottom() - f64::from(step + 1) * height;
        scene.rect(Area::new(bar.x, y, bar.width, height + 0.5), heat(share));
    }
    let style = TextStyle::new(12.0, scene.theme.muted());
    for part in [0.0, 0.5, 1.0] {
        let y = bar.bottom() - bar.height * part;
        let value = range.0 as f64 + (range.1 - range.0) as f64 * part;
        let text = human(value as i64);
        let y_text = (y + 4.0).clamp(bar.y + 10.0, bar.bottom());
        scene.text((bar.right() + 6.0, y_text), text, style);
        let tick = [(bar.right(), y), (bar.right() + 3.0, y)];
        scene.lines(vec![tick.to_vec()], Stroke::solid(scene.theme.axis(), 1.0));
    }
    if rows.iter().flatten().any(Option::is_none) {
        let y = plot.bottom() + 30.0;
        scene.rect(
            Area::new(bar.x - 16.0, y - 10.0, 14.0, 11.0),
            scene.theme.grid(),
        );
        scene.text((bar.x + 4.0, y), "no samples", style);
    }
}
