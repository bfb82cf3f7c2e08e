//! Draws all ranks on one shared clock. A few ranks get one line each. Many ranks are drawn as an
//! envelope: an inner band that contains most ranks, and an outer band that contains all ranks.
//! Ranks that are far from most others also get one line each.

use stormlog_analysis::detect::Severity;
use stormlog_format::counted;

use crate::bytes::human;
use crate::canvas::Canvas;
use crate::chart::{self, BELOW, Key, LEFT, Look, RIGHT};
use crate::error::DrawError;
use crate::grid::{Grid, quantile};
use crate::lines;
use crate::mark::{Mark, MarkKind};
use crate::marks_lane::Lane;
use crate::measure::Measure;
use crate::scale::{Span, TimeScale, ValueScale, byte_ceiling};
use crate::scene::{Area, Point, Scene, Stroke};
use crate::story::Story;
use crate::theme::{Ink, Theme};
use crate::track::DrawnTrack;

/// The largest number of ranks with a line each; more ranks are drawn as an envelope.
pub(crate) const MOST_LINES: usize = 16;
/// The largest number of ranks that get a line of their own beside the envelope: suspects, and
/// ranks outside the inner band of the envelope, which contains most ranks.
const MOST_OUTLIERS: usize = 6;
/// The number of columns of equal width into which the time axis is divided; the envelope has one
/// value per column.
const ENVELOPE_COLUMNS: usize = 480;

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let mut subtitle = vec![story.subtitle()];
    subtitle.extend(story.skew_note());
    subtitle.push(format!(
        "{}, all ranks on one time axis",
        story.compared_measure().as_str()
    ));
    let (mut scene, rest) = chart::sheet(story, canvas, 560, "Memory across ranks", &subtitle);
    let view = View::new(story, span);
    let area = chart::legend(&mut scene, rest, &view.keys(theme));
    view.draw(&mut scene, area, &story.marks());
    Ok(scene)
}

/// The distribution of the ranks' memory in each time column. An outer band from the minimum to the
/// maximum, an inner band from the 10th to the 90th percentile, and a line for the median are
/// drawn.
pub(crate) struct Envelope {
    /// For each time column: the minimum, 10th percentile, median, 90th percentile and maximum over
    /// all ranks; `None` where no rank has a value.
    pub(crate) columns: Vec<Option<[i64; 5]>>,
}

/// What the chart of all ranks shows: a line for each rank, or an envelope and lines for the ranks
/// that [`outliers`] chooses.
pub(crate) struct View<'a> {
    pub(crate) envelope: Option<Envelope>,
    /// The tracks of the ranks that get a line.
    pub(crate) lines: Vec<&'a DrawnTrack>,
    pub(crate) measure: Measure,
    story: &'a Story,
    span: Span,
    peak: i64,
}

impl<'a> View<'a> {
    pub(crate) fn new(story: &'a Story, span: Span) -> Self {
        let tracks = &story.tracks;
        let measure = story.compared_measure();
        let highest = |track: &DrawnTrack| track.highest(measure, span);
        let peaks = tracks.iter().filter_map(highest);
        let peak = peaks.max().unwrap_or(0);
        let (envelope, lines) = if tracks.len() <= MOST_LINES {
            (None, tracks.iter().collect())
        } else {
            let grid = Grid::new(tracks, measure, span, ENVELOPE_COLUMNS);
            let envelope = Envelope::of(&grid);
            let suspects: Vec<i64> = story
                .marks
                .iter()
                .filter(|mark| mark.kind == MarkKind::Suspect)
                .filter_map(|mark| mark.rank)
                .collect();
            let lines = outliers(tracks, &grid, &envelope, &suspects);
            (Some(envelope), lines)
        };
        Self {
            envelope,
            lines,
            measure,
            story,
            span,
            peak,
        }
    }

    pub(crate) fn keys(&self, theme: Theme) -> Vec<Key> {
        let mut keys = Vec::new();
        let what = self.measure.as_str();
        if self.envelope.is_some() {
            keys.push(Key {
                ink: theme.text(),
                text: format!(
                    "median of {}, {what}",
                    counted(self.story.tracks.len(), "rank")
                ),
                look: Look::Line,
            });
            keys.push(Key {
                ink: theme.muted().with_opacity(0.38),
                text: "middle 80 %".into(),
                look: Look::Patch,
            });
            keys.push(Key {
                ink: theme.muted().with_opacity(0.16),
                text: "all".into(),
                look: Look::Patch,
            });
        }
        for (index, track) in self.lines.iter().enumerate() {
            let name = self.story.track_name(track);
            let peak = track.highest(self.measure, self.span);
            keys.push(Key {
                ink: theme.rank(index),
                text: match peak {
                    Some(peak) => format!("{name} (peak {})", human(peak)),
                    None => name,
                },
                look: look_of(index),
            });
        }
        keys
    }

    pub(crate) fn draw(&self, scene: &mut Scene, area: Area, marks: &[Mark]) {
        let time = chart::time_scale(area.inset(LEFT, 0.0, RIGHT, BELOW), self.span);
        let flags = worth_a_flag(marks, self.story.tracks.len());
        let lane = Lane::new(&flags, time);
        let above = lane.height().min(area.height / 2.0) + 4.0;
        let plot = area.inset(LEFT, above, RIGHT, BELOW);
        let top = byte_ceiling(self.peak as f64, 8);
        let value = chart::byte_axis(scene, plot, (0.0, top));
        if let Some(envelope) = &self.envelope {
            envelope.draw(scene, plot, value);
        }
        for (index, track) in self.lines.iter().enumerate() {
            let stroke = Stroke {
                ink: scene.theme.rank(index),
                width: 1.8,
                dashed: look_of(index) == Look::Dashed,
            };
            lines::line(scene, track, self.measure, time, value, stroke);
        }
        for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Suspect) {
            self.dot(scene, mark, time, value);
        }
        lane.draw(scene, plot, area.y, time);
        chart::time_axis(scene, plot, self.span);
    }

    /// Draws a dot where the line of a suspect rank (one where a problem probably began) starts to
    /// rise.
    fn dot(&self, scene: &mut Scene, mark: &Mark, time: TimeScale, value: ValueScale) {
        let of_rank = |track: &&&DrawnTrack| Some(track.rank) == mark.rank;
        let Some(track) = self.lines.iter().find(of_rank) else {
            return;
        };
        let own_time_ns = mark.time_ns.saturating_sub(track.skew_ns);
        let index = track.times().partition_point(|at| *at < own_time_ns);
        let Some(bytes) = track.values(self.measure).get(index) else {
            return;
        };
        let centre: Point = (time.x(mark.time_ns), value.y(*bytes));
        let ink = scene.theme.severity(Severity::Critical);
        scene.dot(centre, 5.5, ink, scene.theme.background());
    }
}

/// Whether a rank's line is solid or dashed. There are eight colours, so the lines from the ninth
/// on are dashed.
fn look_of(index: usize) -> Look {
    if index < 8 { Look::Line } else { Look::Dashed }
}

/// The marks that are drawn with a label and a line across the plot. Alerts that are not critical
/// are left out, because the alerts of many ranks would hide the plot. If there are several ranks,
/// the label of a mark begins with its rank.
fn worth_a_flag(marks: &[Mark], ranks: usize) -> Vec<Mark> {
    let worth = |mark: &&Mark| mark.kind != MarkKind::Alert || mark.severity == Severity::Critical;
    let named = |mark: &Mark| Mark {
        label: match mark.rank {
            Some(rank) if ranks > 1 => format!("rank {rank}: {}", mark.label),
            _ => mark.label.clone(),
        },
        ..mark.clone()
    };
    marks.iter().filter(worth).map(named).collect()
}

impl Envelope {
    fn of(grid: &Grid) -> Self {
        let column = |index| {
            let sorted = grid.sorted_column(index);
            let at = |share| quantile(&sorted, share);
            Some([at(0.0)?, at(0.1)?, at(0.5)?, at(0.9)?, at(1.0)?])
        };
        Self {
            columns: (0..grid.columns).map(column).collect(),
        }
    }

    fn draw(&self, scene: &mut Scene, plot: Area, value: ValueScale) {
        let width = plot.width / self.columns.len().max(1) as f64;
        let centre = |index: usize| plot.x + (index as f64 + 0.5) * width;
        // Each sequence of time columns with known values is drawn as one shape. A column in which
        // no rank has a value stays empty.
        let mut start = 0;
        while start < self.columns.len() {
            let run: Vec<(f64, [i64; 5])> = (start..self.columns.len())
                .map_while(|index| self.columns[index].map(|column| (centre(index), column)))
                .collect();
            if !run.is_empty() {
                band(
                    scene,
                    &run,
                    value,
                    (4, 0),
                    scene.theme.muted().with_opacity(0.16),
                );
                band(
                    scene,
                    &run,
                    value,
                    (3, 1),
                    scene.theme.muted().with_opacity(0.24),
                );
                let median = run.iter().map(|(x, column)| (*x, value.y(column[2])));
                let stroke = Stroke::solid(scene.theme.text(), 1.8);
                scene.lines(vec![median.collect()], stroke);
            }
            start += run.len().max(1);
        }
    }
}

fn band(
    scene: &mut Scene,
    run: &[(f64, [i64; 5])],
    value: ValueScale,
    (upper, lower): (usize, usize),
    fill: Ink,
) {
    let above = run.iter().map(|(x, column)| (*x, value.y(column[upper])));
    let below = run
        .iter()
        .rev()
        .map(|(x, column)| (*x, value.y(column[lower])));
    scene.polygon(above.chain(below).collect(), fill);
}

/// The ranks whose values are furthest outside the inner band of the envelope (10th to 90th
/// percentile); ranks where a problem probably began (suspects) are chosen first.
fn outliers<'a>(
    tracks: &'a [DrawnTrack],
    grid: &Grid,
    envelope: &Envelope,
    suspects: &[i64],
) -> Vec<&'a DrawnTrack> {
    // A rank whose distance from the inner band is at most a twentieth of the highest value is not
    // an outlier.
    let noise = grid.peak() / 20;
    let distance = |row: &Vec<Option<i64>>| {
        let cells = row.iter().zip(&envelope.columns);
        let outside = cells.filter_map(|(cell, column)| {
            let (value, [_, low, _, high, _]) = ((*cell)?, (*column)?);
            Some((value - high).max(low - value))
        });
        outside.max().unwrap_or(0)
    };
    let mut far: Vec<(bool, i64, &DrawnTrack)> = tracks
        .iter()
        .zip(&grid.rows)
        .map(|(track, row)| (suspects.contains(&track.rank), distance(row), track))
        .filter(|(suspect, distance, _)| *suspect || *distance > noise)
        .collect();
    far.sort_by_key(|(suspect, distance, track)| (!suspect, -distance, track.rank));
    far.truncate(MOST_OUTLIERS);
    far.sort_by_key(|(.., track)| (track.rank, track.device_id));
    far.into_iter().map(|(.., track)| track).collect()
}
