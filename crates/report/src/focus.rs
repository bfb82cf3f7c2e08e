//! The first chart of a picture: the quantity that the leading finding is about, alone and on an axis
//! of its own range, with the growth as a line and the level at which the memory is full.

use stormlog_analysis::detect::{Kind, Memory, Quantity, Samples, Severity};
use stormlog_analysis::timeline::Run;
use stormlog_format::{counted, human_duration, human_rate};

use crate::bytes::human;
use crate::chart::{self, BELOW, LEFT, RIGHT};
use crate::label::clean;
use crate::lines;
use crate::mark::{Mark, MarkKind};
use crate::marks_lane::Lane;
use crate::measure::Measure;
use crate::request::{self, FailedRequest};
use crate::scale::{Span, TimeScale, ValueScale, byte_ceiling, byte_floor};
use crate::scene::{Area, Point, Scene, Stroke, TextStyle};
use crate::story::Story;
use crate::theme::Ink;
use crate::timeline::process_limit;
use crate::track::DrawnTrack;

/// Height in pixels of the chart without the texts above it.
pub(crate) const HEIGHT: u32 = 300;
/// Height in pixels of a row of text above the plot.
const ROW: f64 = 17.0;
/// If the values of the chart change by less than this share of the highest of them, the axis does
/// not start at zero, because the change would be a sliver.
const SLIVER: f64 = 0.34;
/// The axis spans at least this share of the highest value, so that its numbers stay short.
const LEAST_SPAN: f64 = 0.002;
/// Values before the onset are inside the axis if the axis gets at most this many times as long.
const MOST_BEFORE: f64 = 2.0;
/// The limit is inside the axis if the axis gets at most this many times as long.
const MOST_LIMIT: f64 = 1.6;

/// The quantity that the leading finding of a run is about, ready to be drawn. All times are on the
/// shared clock of all ranks, except those of the track.
#[derive(Clone, Debug)]
pub(crate) struct Focus {
    /// The values, as the only measure of a track.
    pub(crate) track: DrawnTrack,
    pub(crate) measure: Measure,
    /// Whether the quantity is host memory.
    pub(crate) on_host: bool,
    /// The kind of memory: `allocated memory`.
    pub(crate) name: &'static str,
    /// What is drawn: `Allocated memory of GPU 0 at the ends of steps`.
    pub(crate) title: String,
    /// What was found, in a few words: `leak since 10.8 s: +313 MiB, 16.6 MiB/s`.
    pub(crate) words: String,
    pub(crate) severity: Severity,
    pub(crate) onset_ns: Option<i64>,
    /// The growth as a line: time and bytes of its start and of its end.
    pub(crate) trend: Option<[(i64, i64); 2]>,
    /// The level at which the memory is full, and when that is reached.
    pub(crate) limit: Option<(i64, String)>,
    /// Whether the axis starts at zero in any case, so that the failed request can be compared.
    from_zero: bool,
    zero_ns: i64,
}

impl Focus {
    /// Makes the first chart of a quantity. `sources` are the tracks of the run as they are drawn,
    /// and `zero_ns` is the start of the run.
    pub(crate) fn of<'a>(
        quantity: &Quantity,
        run: &Run,
        mut sources: impl Iterator<Item = &'a DrawnTrack>,
        zero_ns: i64,
    ) -> Option<Self> {
        let track = run.tracks.get(quantity.track)?;
        let session = clean(&track.session_id);
        let source = sources.find(|source| {
            source.session_id == session
                && source.device_id == track.device_id
                && source.rank == i64::from(track.rank)
        })?;
        let measure = match quantity.memory {
            Memory::Reserved => Measure::Reserved,
            Memory::Hidden => Measure::Hidden,
            Memory::Used if track.knows_own() => Measure::Own,
            Memory::Used => Measure::Used,
            _ => Measure::Allocated,
        };
        let finding = &quantity.finding;
        let shared = |at: i64| source.shared_ns(at);
        let onset_ns = finding.onset_ns.map(shared);
        let ends = quantity.trend.map(|trend| {
            [
                (shared(trend.onset_ns), trend.from_bytes),
                (shared(trend.end_ns), trend.to_bytes),
            ]
        });
        Some(Self {
            track: source.with_values(
                measure,
                quantity.t_ns.clone(),
                quantity.bytes.clone(),
                quantity.samples != Samples::All,
            ),
            measure,
            on_host: quantity.memory.is_host(),
            name: quantity.memory.name(),
            title: title_of(quantity, run),
            words: words_of(quantity, (onset_ns, finding.end_ns.map(shared)), zero_ns),
            severity: finding.severity,
            onset_ns,
            trend: ends,
            limit: quantity.limit.map(|limit| (limit.bytes, limit.words())),
            from_zero: finding.kind == Kind::OomRisk,
            zero_ns,
        })
    }

    /// Whether the quantity is about the resource of a track, or about host memory of its rank.
    pub(crate) fn is_of(&self, track: &DrawnTrack) -> bool {
        track.rank == self.track.rank && (self.on_host || track.device_id == self.track.device_id)
    }

    /// The ends of the byte axis for a time span. The axis starts at zero unless the changes would
    /// be too small to be seen.
    pub(crate) fn range(&self, span: Span) -> (f64, f64) {
        let within = self.track.within(span);
        let all = self.track.extremes(self.measure, within).unwrap_or((0, 1));
        // Loading a model before the growth may take far more memory than the growth.
        let since = self.onset_ns.filter(|_| self.trend.is_some()).map(|onset| {
            let since = Span::new(onset.clamp(span.from, span.to), span.to);
            let extremes = self.track.extremes(self.measure, self.track.within(since));
            extremes.unwrap_or(all)
        });
        let (mut least, mut most) = since.unwrap_or(all);
        if let Some([from, to]) = self.trend.filter(|[_, to]| to.0 >= span.from) {
            (least, most) = (least.min(from.1), most.max(to.1));
        }
        let length = (most.saturating_sub(least)) as f64;
        let before = (least.min(all.0), most.max(all.1));
        if (before.1.saturating_sub(before.0)) as f64 <= MOST_BEFORE * length {
            (least, most) = before;
        }
        if self.from_zero || length >= SLIVER * most as f64 {
            return (0.0, byte_ceiling(most.max(all.1) as f64, 6));
        }
        if let Some((limit, _)) = &self.limit
            && limit.saturating_sub(least) as f64 <= MOST_LIMIT * length
        {
            most = most.max(*limit);
        }
        let length = (most.saturating_sub(least) as f64).max(LEAST_SPAN * most as f64);
        let low = byte_floor(least as f64 - 0.06 * length, length, most as f64);
        let high = most as f64 + 0.10 * length;
        (low.max(0.0), high)
    }

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

fn title_of(quantity: &Quantity, run: &Run) -> String {
    let track = &run.tracks[quantity.track];
    let mut name = quantity.memory.name().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let owner = match &quantity.process {
        Some((pid, name)) if name.is_empty() => format!(" of process {pid}"),
        Some((_, name)) => format!(" of {}", clean(short_command(name))),
        None if track.is_host() => String::new(),
        None => format!(" on GPU {}", track.device_id),
    };
    let mut ranks: Vec<u32> = run.tracks.iter().map(|track| track.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let rank = match ranks.len() {
        0 | 1 => String::new(),
        count => format!(", rank {} of {}", track.rank, counted(count, "rank")),
    };
    let at = match quantity.samples {
        Samples::All => "",
        Samples::StepEnds => ", at the ends of steps",
        Samples::Floor => ", held between steps",
    };
    format!("{name}{owner}{rank}{at}")
}

/// A command without the folders of its program: `python train.py`.
fn short_command(command: &str) -> &str {
    let end = command.find(' ').unwrap_or(command.len());
    command[..end]
        .rfind('/')
        .map_or(command, |slash| &command[slash + 1..])
}

fn since(at_ns: i64, zero_ns: i64) -> String {
    human_duration(at_ns.saturating_sub(zero_ns).max(0))
}

fn words_of(
    quantity: &Quantity,
    (onset_ns, end_ns): (Option<i64>, Option<i64>),
    zero_ns: i64,
) -> String {
    let finding = &quantity.finding;
    let what = match finding.kind {
        Kind::OomRisk if finding.time_to_full_s.is_none_or(|left| left <= 0.0) => "out of memory",
        kind => kind.detector().label,
    };
    if what == "out of memory" {
        let at = end_ns.map_or_else(String::new, |end| format!(" at {}", since(end, zero_ns)));
        let tried = finding.magnitude_bytes.map_or_else(String::new, |bytes| {
            format!(": tried to allocate {}", human(bytes))
        });
        return format!("{what}{at}{tried}");
    }
    let since = onset_ns.map_or_else(String::new, |onset| {
        format!(" since {}", since(onset, zero_ns))
    });
    let grown = finding.magnitude_bytes.filter(|_| onset_ns.is_some());
    let rate = finding.rate_bytes_per_s.filter(|rate| rate.is_finite());
    let numbers: Vec<String> = [
        grown.map(|bytes| format!("+{}", human(bytes))),
        rate.map(human_rate),
    ]
    .into_iter()
    .flatten()
    .collect();
    let numbers = match numbers.as_slice() {
        [] => String::new(),
        numbers => format!(": {}", numbers.join(", ")),
    };
    format!("{what}{since}{numbers}")
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;
    use stormlog_analysis::timeline::TimeZero;

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
