//! The one curve that stands for a run where there is no room for a chart: in a row of a list, in
//! the terminal interface.

use stormlog_analysis::detect::Severity;
use stormlog_format::counted;

use crate::focus::Focus;
use crate::measure::Measure;
use crate::reduce::Columns;
use crate::scale::Span;
use crate::story::Story;

/// The curve of a run: the quantity that its leading finding is about, otherwise the memory of its
/// own process. For several ranks without a finding, it is the highest value of any rank.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What the curve shows.
    pub title: String,
    /// What was found, in a few words, with the severity; `None` without a finding.
    pub found: Option<(Severity, String)>,
    /// The measure, which decides the colour.
    pub measure: Measure,
    /// The lowest and the highest value in each column.
    pub columns: Columns,
    /// The value in bytes at the lower end of the axis; lower values are outside.
    pub low: i64,
    /// The time and the bytes of the start and of the end of growth, on the shared clock.
    pub trend: Option<[(i64, i64); 2]>,
    /// When the found problem began, on the shared clock.
    pub onset_ns: Option<i64>,
    /// When the memory is full at the rate of the growth, in a few words.
    pub limit: Option<String>,
}

impl Story {
    /// The curve of the run, in equal columns of a time range of the shared clock.
    pub fn curve(&self, (from_ns, to_ns): (i64, i64), count: usize) -> Curve {
        match &self.focus {
            Some(focus) => of_focus(focus, (from_ns, to_ns), count),
            None => self.own_curve((from_ns, to_ns), count),
        }
    }

    fn own_curve(&self, span: (i64, i64), count: usize) -> Curve {
        let measure = self.compared_measure();
        let mut columns: Columns = vec![None; count];
        for track in &self.tracks {
            for (merged, column) in columns.iter_mut().zip(track.columns(measure, span, count)) {
                *merged = match (*merged, column) {
                    (Some((_, high)), Some((_, other))) if high >= other => *merged,
                    (known, None) => known,
                    (_, column) => column,
                };
            }
        }
        let is_host = self.tracks.iter().all(crate::DrawnTrack::is_host);
        let what = match (is_host, measure) {
            (true, _) => "host memory",
            (false, Measure::Own) => "device memory of the process",
            (false, Measure::Used) => "device memory in use",
            (false, measure) => measure.as_str(),
        };
        let title = match self.tracks.len() {
            0 | 1 => what.to_owned(),
            several => format!("{what}, highest of {}", counted(several, "track")),
        };
        Curve {
            title,
            found: None,
            measure,
            columns,
            low: 0,
            trend: None,
            onset_ns: None,
            limit: None,
        }
    }
}

fn of_focus(focus: &Focus, span: (i64, i64), count: usize) -> Curve {
    let (low, _) = focus.range(Span::new(span.0, span.1));
    Curve {
        title: focus.title.clone(),
        found: Some((focus.severity, focus.words.clone())),
        measure: focus.measure,
        columns: focus.track.columns(focus.measure, span, count),
        low: low as i64,
        trend: focus.trend,
        onset_ns: focus.onset_ns,
        limit: focus.limit.as_ref().map(|(_, words)| words.clone()),
    }
}
