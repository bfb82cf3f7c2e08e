//! Draws two runs on one page, aligned by their start or by their steps, with the difference as a
//! band between the two curves.

use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Map, Value};

use super::{Builder, Line, PageData, rank_colour};
use crate::error::DrawError;
use crate::measure::{Measure, UNKNOWN};
use crate::scale::Span;
use crate::story::Story;
use crate::track::{DrawnTrack, compared_measure};

/// The number of points in each curve when two runs are aligned by the time since their start.
const POINTS: usize = 1200;
/// The distance in nanoseconds between neighbouring steps on the x axis when runs are aligned by
/// step. The x axis is in nanoseconds, so each step is drawn one second after the previous step.
const STEP_NS: i64 = 1_000_000_000;

/// What the x axis of a chart with the memory curves of two runs counts: time or training steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// Samples of both runs with the same time since the first sample of their run have the same x
    /// position.
    #[default]
    Start,
    /// Samples of both runs with the same step number have the same x position.
    Step,
}

impl Alignment {
    /// The name of the alignment in the URL of a comparison page, as the value of the parameter
    /// `align`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Step => "step",
        }
    }
}

/// The names of the two runs in the legend: first that of the base run, then that of the new run.
pub(crate) type Names<'a> = (&'a str, &'a str);

/// Builds the data of a page that shows the memory curves of a base run and a new run in one chart.
pub(crate) fn data(
    base: &Story,
    new: &Story,
    names: Names<'_>,
    alignment: Alignment,
) -> Result<PageData, DrawError> {
    let mut page = Builder::new(Span::new(0, 0));
    let length = match alignment {
        Alignment::Start => page.by_start(base, new, names)?,
        Alignment::Step => page.by_step(base, new, names)?,
    };
    let mut spec = Map::new();
    spec.insert("axis", alignment.name());
    spec.insert("zero_ms", 0);
    spec.insert("zero_ns_rest", 0);
    spec.insert("length", length);
    spec.insert("several", Value::Bool(false));
    spec.insert("tracks", Value::List(page.tracks));
    spec.insert("panels", Value::List(page.panels));
    for none in ["marks", "phases", "facts", "requests"] {
        spec.insert(none, Value::List(Vec::new()));
    }
    Ok(PageData {
        spec: Writer::new(Layout::Compact).map_to_string(&spec),
        overview: page.overview,
        detail: page.detail,
    })
}

impl Builder {
    /// Adds the curves of both runs by time since their start, each the highest value of all ranks;
    /// returns the length of the longer run.
    fn by_start(&mut self, base: &Story, new: &Story, names: Names<'_>) -> Result<i64, DrawError> {
        let (base_span, new_span) = (base.shown()?, new.shown()?);
        let length = base_span.length().max(new_span.length()).max(1);
        let step = (length / POINTS as i64).max(1);
        let measure = common_measure(base, new);
        let highest = |story: &Story, span: Span| -> Vec<i64> {
            let end = span.from.saturating_add(step.saturating_mul(POINTS as i64));
            let mut points = vec![UNKNOWN; POINTS];
            for track in &story.tracks {
                let columns = track.columns(measure, (span.from, end), POINTS);
                for (point, column) in filled(&columns).into_iter().enumerate() {
                    points[point] = points[point].max(column);
                }
            }
            points
        };
        let values = [highest(base, base_span), highest(new, new_span)];
        let times = (0..POINTS as i64).map(|point| point * step).collect();
        let title = format!("{}, the highest of all ranks", measure.as_str());
        self.both(times, values, names, &title, step * 2);
        Ok(length)
    }

    /// Adds two panels by step number: the memory in use at the end of each step, and the highest
    /// use during each step.
    fn by_step(&mut self, base: &Story, new: &Story, names: Names<'_>) -> Result<i64, DrawError> {
        type Value = fn(&stormlog_analysis::timeline::Step) -> i64;
        let steps = |story: &Story, value: Value| {
            let mut highest = std::collections::BTreeMap::new();
            for step in story.tracks.iter().flat_map(DrawnTrack::steps) {
                let known = highest.entry(step.number).or_insert(UNKNOWN);
                *known = value(step).max(*known);
            }
            highest
        };
        let panels: [(&str, Value); 2] = [
            ("memory in use at the end of each step", |step| step.floor),
            ("highest memory in use during each step", |step| {
                step.peak.max(step.floor)
            }),
        ];
        let mut last = 0;
        for (title, value) in panels {
            let sides = [steps(base, value), steps(new, value)];
            let mut numbers: Vec<i64> =
                sides.iter().flat_map(|side| side.keys().copied()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let Some(end) = numbers.last() else {
                return Err(DrawError::NoSteps);
            };
            last = *end;
            // A step at whose end no sample was taken gets the value of the previous step.
            let levels = sides.map(|side| {
                let until = side.keys().next_back().copied().unwrap_or(i64::MIN);
                let mut level = UNKNOWN;
                let at = |number: &i64| {
                    level = side.get(number).copied().unwrap_or(level);
                    if *number <= until { level } else { UNKNOWN }
                };
                numbers.iter().map(at).collect::<Vec<i64>>()
            });
            let times = numbers.iter().map(|number| number.saturating_mul(STEP_NS));
            self.both(times.collect(), levels, names, title, i64::MAX);
        }
        Ok(last.saturating_mul(STEP_NS))
    }

    /// Adds a panel with the curves of both runs and the band between them.
    fn both(
        &mut self,
        times: Vec<i64>,
        values: [Vec<i64>; 2],
        names: Names<'_>,
        title: &str,
        gap_ns: i64,
    ) {
        let [base, new] = values;
        let line = |name: &str, index, values: Vec<i64>| Line {
            name: name.to_owned(),
            colour: rank_colour(index),
            peak: values.iter().copied().filter(|one| *one != UNKNOWN).max(),
            off: false,
            values,
        };
        let lines = [line(names.0, 0, base), line(names.1, 1, new)];
        let id = self.columns(times, &lines, title, None, gap_ns, Vec::new());
        self.panel(title, &[id], Some("band"));
    }
}

/// The measure of memory to compare: one that was recorded in both runs.
fn common_measure(base: &Story, new: &Story) -> Measure {
    let (ours, theirs) = (
        compared_measure(&base.tracks),
        compared_measure(&new.tracks),
    );
    if ours == theirs {
        ours
    } else {
        Measure::Allocated
    }
}

/// The highest value in each time column. A column without a sample gets the value of the previous
/// column, because samples may be further apart than columns.
fn filled(columns: &[Option<(i64, i64)>]) -> Vec<i64> {
    let last = columns.iter().rposition(Option::is_some);
    let mut level = UNKNOWN;
    let at = |(index, column): (usize, &Option<(i64, i64)>)| {
        level = column.map_or(level, |(_, high)| high);
        if last.is_some_and(|last| index <= last) {
            level
        } else {
            UNKNOWN
        }
    };
    columns.iter().enumerate().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_after_the_last_sample() {
        let columns = [None, Some((1, 5)), None, Some((2, 3)), None];
        assert_eq!(filled(&columns), [UNKNOWN, 5, 5, 3, UNKNOWN]);
        assert_eq!(filled(&[None]), [UNKNOWN]);
    }

    #[test]
    fn runs_without_steps_cannot_be_aligned_by_them() {
        let story = Story::of_tracks(vec![DrawnTrack::from_points(vec![
            (0, 1, 1, String::new()),
            (1_000, 2, 2, String::new()),
        ])]);
        let by = |alignment| data(&story, &story, ("a", "b"), alignment).map(|page| page.spec);
        assert!(matches!(by(Alignment::Step), Err(DrawError::NoSteps)));
        assert!(by(Alignment::Start).unwrap().contains("\"band\":true"));
    }
}
