//! Draws the first chart of a picture: a [`Focus`], alone and on an axis of its own range.

use stormlog_analysis::detect::Severity;

use crate::bytes::human;
use crate::chart::{self, BELOW, LEFT, RIGHT, process_limit};
use crate::focus::{Focus, since};
use crate::lines;
use crate::mark::{Mark, MarkKind};
use crate::marks_lane::Lane;
use crate::measure::Measure;
use crate::request::{self, FailedRequest};
use crate::scale::{Span, TimeScale, ValueScale};
use crate::scene::{Area, Point, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::Ink;

/// Height in pixels of the chart without the texts above it.
pub(crate) const HEIGHT: u32 = 300;
/// Height in pixels of a row of text above the plot.
const ROW: f64 = 17.0;

impl Focus {
    /// The marks of the chart: those of its resource that are findings or critical.
    fn marks(&self, story: &Story) -> Vec<Mark> {
        let is_mine = |mark: &Mark| {
            mark.on_host == self.on_host
                && mark.rank.is_none_or(|rank| rank == self.track.rank)
                && (mark.kind != MarkKind::Alert || mark.severity == Severity::Critical)
        };
        let mut marks = story.marks();
        marks.retain(is_mine);
        // The words above the plot describe the finding, so its mark only names the time.
        let onset = self.onset_ns;
        for mark in &mut marks {
            if Some(mark.time_ns) == onset && mark.severity == self.severity {
                mark.label = format!("since {}", since(mark.time_ns, self.zero_ns));
            }
        }
        marks
    }

    /// The failed allocations of the chart, for memory that the allocator counts.
    pub(crate) fn requests(&self, story: &Story) -> Vec<FailedRequest> {
        if self.on_host || self.measure == Measure::Hidden {
            return Vec::new();
        }
        let mut requests = story.requests_for(&self.track);
        if self.measure == Measure::Reserved {
            for request in &mut requests {
                request.in_use = request.reserved.unwrap_or(request.in_use);
            }
        }
        requests
    }

    /// The title and the words of the chart, in lines that fit.
    fn texts(&self, width: f64, ink: Ink) -> (Vec<String>, Vec<String>) {
        let bold = TextStyle::new(13.5, ink).bold();
        let plain = TextStyle::new(12.5, ink);
        (
            chart::wrapped(&self.title, bold, width, usize::MAX),
            chart::wrapped(&self.words, plain, width, usize::MAX),
        )
    }

    /// Draws the chart, with its own title and the time axis.
    pub(crate) fn draw(&self, scene: &mut Scene, area: Area, span: Span, story: &Story) {
        let (marks, requests) = (self.marks(story), self.requests(story));
        let (titles, words) = self.texts(area.width, scene.theme.text());
        let mut y = area.y;
        let style = TextStyle::new(13.5, scene.theme.text()).bold();
        for line in titles {
            y += ROW;
            scene.text((area.x, y), line, style);
        }
        let style = TextStyle::new(12.5, scene.theme.severity(self.severity));
        for line in words {
            y += ROW;
            scene.text((area.x, y), line, style);
        }
        let rest = area.below(y + 8.0);
        let time = chart::time_scale(rest.inset(LEFT, 0.0, RIGHT, BELOW), span);
        let lane = Lane::new(&marks, time);
        let above = lane.height().min(rest.height / 2.0) + 4.0;
        let plot = rest.inset(LEFT, above, RIGHT, BELOW);
        let (low, high) = self.range_with(&requests, span);
        let value = chart::byte_axis(scene, plot, (low, high));
        chart::sampling_gaps(scene, plot, span, &self.track.gaps());
        self.values(scene, plot, time, value);
        self.trend_line(scene, plot, time, value);
        let mut taken: Vec<Area> = self.limit_line(scene, plot, value).into_iter().collect();
        let limits = requests.iter().filter_map(|request| request.limit);
        if let Some(limit) = limits.min().filter(|limit| *limit as f64 <= value.high) {
            taken.push(process_limit(scene, plot, value, limit));
        }
        request::draw(scene, plot, (time, value), &requests, taken);
        lane.draw(scene, plot, rest.y, time);
        lane.note_unlabelled(scene, plot);
        chart::time_axis(scene, plot, span);
    }

    fn range_with(&self, requests: &[FailedRequest], span: Span) -> (f64, f64) {
        let (low, high) = self.range(span);
        let tops = requests.iter().map(|request| request.top() as f64);
        let tried = tops.fold(0.0, f64::max);
        // A request far beyond what was in use is cut at the top of the plot.
        let top = tried.min(high + 0.5 * (high - low)) * 1.02;
        (low, high.max(top))
    }

    fn values(&self, scene: &mut Scene, plot: Area, time: TimeScale, value: ValueScale) {
        if value.low <= 0.0 {
            let fill = scene.theme.measure(self.measure).with_opacity(0.14);
            let measures = (self.measure, None);
            lines::between(scene, &self.track, measures, time, value, fill);
        }
        let range = self.track.within(time.span);
        let samples = (
            &self.track.times()[range.clone()],
            &self.track.values(self.measure)[range],
        );
        let own = TimeScale {
            span: self.track.own_span(time.span),
            ..time
        };
        let below = ValueScale {
            // Values below the axis are cut at its lower end, so they are converted without a limit.
            low: 0.0,
            height: plot.height * value.high / (value.high - value.low).max(1.0),
            ..value
        };
        let pieces = lines::pieces(samples, own, below, self.track.gap_ns());
        let pieces = pieces
            .into_iter()
            .flat_map(|piece| above(&piece, plot.bottom()))
            .collect();
        let ink = scene.theme.measure(self.measure);
        scene.lines(pieces, Stroke::solid(ink, 1.8));
    }

    fn trend_line(&self, scene: &mut Scene, plot: Area, time: TimeScale, value: ValueScale) {
        let Some([from, to]) = self.trend else {
            return;
        };
        let length = (to.0.saturating_sub(from.0)).max(1) as f64;
        let level = |at: i64| {
            let share = at.saturating_sub(from.0) as f64 / length;
            from.1 as f64 + share * to.1.saturating_sub(from.1) as f64
        };
        let (first, last) = (from.0.max(time.span.from), to.0.min(time.span.to));
        if first >= last {
            return;
        }
        let point = |at: i64| (time.x(at), value.y(level(at) as i64).min(plot.bottom()));
        let ink = scene.theme.severity(self.severity);
        scene.line(point(first), point(last), Stroke::dashed(ink, 2.6));
    }

    /// Draws the level at which the memory is full, or an arrow to it; returns the area of its label.
    fn limit_line(&self, scene: &mut Scene, plot: Area, value: ValueScale) -> Option<Area> {
        let (limit, words) = self.limit.as_ref()?;
        let ink = scene.theme.severity(self.severity);
        let style = TextStyle::new(12.0, ink);
        if *limit as f64 <= value.high {
            let y = value.y(*limit);
            let stroke = Stroke::dashed(scene.theme.measure(Measure::Capacity), 1.5);
            scene.line((plot.x, y), (plot.right(), y), stroke);
            let text = format!("{} {words}", human(*limit));
            let text = style.fit(&text, plot.width - 12.0);
            let area = Area::new(plot.x + 6.0, y + 3.0, style.width(&text), 14.0);
            scene.text((plot.x + 6.0, y + 14.0), text, style);
            return Some(area);
        }
        // The limit is far above the axis: an arrow points to it.
        let (x, top) = (plot.x + 12.0, plot.y + 6.0);
        scene.line((x, top + 4.0), (x, top + 18.0), Stroke::solid(ink, 1.8));
        scene.polygon(
            vec![(x, top), (x + 4.5, top + 7.0), (x - 4.5, top + 7.0)],
            ink,
        );
        let text = style.fit(words, plot.width - 30.0);
        let area = Area::new(x + 10.0, top + 2.0, style.width(&text), 14.0);
        scene.text((x + 10.0, top + 13.0), text, style);
        Some(area)
    }
}

/// The parts of a line that are above a y position; a part that crosses it ends there.
fn above(piece: &[Point], bottom: f64) -> Vec<Vec<Point>> {
    let mut parts: Vec<Vec<Point>> = Vec::new();
    let mut part: Vec<Point> = Vec::new();
    let mut last: Option<Point> = None;
    for &point in piece {
        let crossing = last.filter(|last| (last.1 > bottom) != (point.1 > bottom));
        let crossing = crossing.map(|last| {
            let share = (bottom - last.1) / (point.1 - last.1);
            (last.0 + share * (point.0 - last.0), bottom)
        });
        part.extend(crossing);
        if point.1 <= bottom {
            part.push(point);
        } else if !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        last = Some(point);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;
    use stormlog_analysis::timeline::TimeZero;
    use stormlog_format::human_duration;

    use super::*;
    use crate::fixtures::{opened, recordings};

    /// The text of a finding, its mark in pictures and the first chart give one time for its start.
    #[test]
    fn all_times_of_a_run_count_from_its_start() {
        let checked: usize = recordings()
            .into_par_iter()
            .filter_map(|path| opened(&path))
            .map(|run| {
                let story = Story::of_diagnosed(&run);
                let (marks, zero) = (story.marks(), TimeZero::of(&run.timeline));
                assert_eq!(story.start_ns(), zero.shared_ns());
                let mut checked = 0;
                for finding in run.diagnosis.findings() {
                    let (Some(onset), Some(at)) =
                        (finding.onset_ns, finding.explanation.find(" since "))
                    else {
                        continue;
                    };
                    let rank = finding.rank.or_else(|| {
                        let mut tracks = run.timeline.tracks.iter();
                        let of_session = tracks.find(|one| one.session_id == finding.session_id);
                        of_session.map(|track| track.rank)
                    });
                    let since = human_duration(zero.since_ns(rank, onset));
                    let text = &finding.explanation[at + " since ".len()..];
                    assert!(text.starts_with(&since), "{since}: {}", finding.explanation);
                    let is_marked = marks.iter().any(|mark| {
                        human_duration(mark.time_ns - zero.shared_ns().unwrap()) == since
                    });
                    assert!(is_marked, "{since}: {marks:?}");
                    checked += 1;
                }
                checked
            })
            .sum();
        assert!(checked > 40, "{checked}");
    }

    #[test]
    fn growth_is_no_sliver_in_the_first_chart() {
        let checked: usize = recordings()
            .into_par_iter()
            .filter_map(|path| Some((opened(&path)?, path)))
            .filter_map(|(run, path)| {
                let story = Story::of_diagnosed(&run);
                let findings = run.diagnosis.findings();
                let has_found = findings.first()?.severity > Severity::Info;
                assert_eq!(story.focus.is_some(), has_found, "{path:?}");
                let focus = story.focus.as_ref()?;
                let [from, to] = focus.trend?;
                let (low, high) = focus.range(story.shown().unwrap());
                let share = (to.1 - from.1) as f64 / (high - low);
                assert!(share > 0.1, "{path:?}: {share} of {low}..{high}");
                let is_inside = low <= from.1 as f64 && to.1 as f64 <= high;
                assert!(is_inside, "{path:?}: {from:?} {to:?} {low} {high}");
                Some(1)
            })
            .sum();
        assert!(checked > 20, "{checked}");
    }

    #[test]
    fn a_line_is_cut_where_it_leaves_the_plot() {
        let line = [(0.0, 30.0), (10.0, 10.0), (20.0, 10.0), (30.0, 30.0)];
        assert_eq!(
            above(&line, 20.0),
            [[(5.0, 20.0), (10.0, 10.0), (20.0, 10.0), (25.0, 20.0)]]
        );
        assert_eq!(above(&[(0.0, 9.0)], 5.0), Vec::<Vec<Point>>::new());
    }
}
