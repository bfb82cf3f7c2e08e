//! A story is the content of a chart: tracks, marks, phases and the texts around them.

use stormlog_analysis::analyze::RunReport;
use stormlog_analysis::detect::{Diagnosis, Quantity, Severity};
use stormlog_analysis::timeline::{RankCoverage, Run, TimeZero, run_of};
use stormlog_analysis::{DiagnosedRun, Loaded, LoadedSession};
use stormlog_format::{counted, human_duration};

use crate::analyze::{cause_lines, note_lines};
use crate::error::DrawError;
use crate::focus::Focus;
use crate::held::{self, HeldGraph};
use crate::label::{clean, clean_paragraph, plain_paragraph};
use crate::ledger::{LedgerLines, ledger_lines};
use crate::mark::{Mark, marks_of, marks_of_diagnosis};
use crate::measure::{Measure, UNKNOWN};
use crate::phase::{Phase, phases_of};
use crate::request::{FailedRequest, requests_of};
use crate::scale::Span;
use crate::time;
use crate::track::{DrawnTrack, compared_measure, split_tracks};

/// Marks up to this many nanoseconds after the last sample are included in the chart, or up to a
/// tenth of the recorded time after the last sample if that is longer.
const LONGEST_END_NS: i64 = 2_000_000_000;

/// The largest number of devices of a run for which a page lists what uses their memory.
const MOST_LEDGERS: usize = 8;

/// The content of a chart: tracks, marks, phases and texts.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The heading; `None` means a heading that names the job or the session.
    pub title: Option<String>,
    /// What the analysis found in the run, in a sentence, with the severity of the worst finding;
    /// `None` if the run was not analyzed.
    pub verdict: Option<(Severity, String)>,
    /// What to do about the most severe finding; `None` without a finding that needs action.
    pub advice: Option<String>,
    /// The line of code and the holder that caused the most severe finding, as lines of text.
    pub cause: Vec<String>,
    /// Facts about the run that are worth knowing but are no problem, one line of text each.
    pub notes: Vec<String>,
    /// For each device, the list of what uses its memory (its ledger).
    pub(crate) ledgers: Vec<LedgerLines>,
    /// Flame graphs of the memory that is held, by call stack and by holder.
    pub(crate) held: Vec<HeldGraph>,
    pub(crate) tracks: Vec<DrawnTrack>,
    /// The host memory of each rank whose device memory is in `tracks`. The host memory of other
    /// ranks is in `tracks` itself.
    pub(crate) hosts: Vec<DrawnTrack>,
    /// Allocations that failed because the device was out of memory.
    pub(crate) requests: Vec<FailedRequest>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) span: Option<Span>,
    /// The start of the run on the shared clock, from which all times are counted; `None` for tracks
    /// that do not come from a run.
    pub(crate) zero_ns: Option<i64>,
    /// The quantity that the leading finding is about; `None` without a finding.
    pub(crate) focus: Option<Focus>,
    /// The name of the recorded program, if known.
    pub(crate) program: Option<String>,
    pub(crate) largest_skew_ns: i64,
    /// Whether the tracks consist of all events of an allocator's history and not of samples;
    /// between two such events no data is missing.
    pub(crate) is_history: bool,
}

impl Story {
    /// Creates the story of one run from its sessions, without a verdict.
    pub fn of_sessions(sessions: &[&LoadedSession]) -> Self {
        Self::of_run(&run_of(sessions), sessions)
    }

    /// Creates the story of a run from its timeline and its sessions.
    pub fn of_run(run: &Run, sessions: &[&LoadedSession]) -> Self {
        let mut facts = Vec::new();
        // The status of a session is only known if the session was loaded from files.
        if let [session] = sessions
            && !session.sources.is_empty()
        {
            let status = session.summary.status.as_str();
            facts.push(("session status".to_owned(), status.to_owned()));
        }
        let damaged: usize = sessions.iter().map(|session| session.damage.len()).sum();
        if damaged > 0 {
            facts.push(("damages".to_owned(), damaged.to_string()));
        }
        let (tracks, hosts) = split_tracks(run);
        let mut story = Self {
            ledgers: ledger_lines(run, MOST_LEDGERS),
            held: held::graphs(run),
            tracks,
            hosts,
            requests: requests_of(run),
            marks: marks_of(sessions),
            phases: phases_of(run),
            facts,
            zero_ns: TimeZero::of(run).shared_ns(),
            program: run.program.name.as_deref().map(clean),
            ..Self::default()
        };
        story.settle();
        story
    }

    /// Creates the story of a run with its diagnosis.
    pub fn of_diagnosed(run: &DiagnosedRun) -> Self {
        let sessions: Vec<&LoadedSession> = run.sessions.iter().collect();
        let mut story = Self::of_run(&run.timeline, &sessions);
        story.add_diagnosis(&run.timeline, &run.diagnosis);
        story
    }

    /// Creates the story of a run of a report, with its diagnosis. `loaded` contains the sessions of
    /// the report.
    pub fn of_report(run: &RunReport, loaded: &[Loaded]) -> Self {
        let sessions = loaded.iter().flat_map(|one| &one.sessions);
        let sessions: Vec<&LoadedSession> = sessions
            .filter(|session| run.sessions.contains(&session.summary))
            .collect();
        let mut story = Self::of_run(&run.timeline, &sessions);
        story.add_diagnosis(&run.timeline, &run.diagnosis);
        story
    }

    /// Creates the story of tracks that do not come from recorded sessions, such as the history in
    /// a snapshot.
    pub fn of_tracks(tracks: Vec<DrawnTrack>) -> Self {
        let mut story = Self {
            tracks,
            ..Self::default()
        };
        story.settle();
        story
    }

    fn settle(&mut self) {
        self.tracks.retain(|track| !track.times().is_empty());
        let skews = self
            .tracks
            .iter()
            .map(|track| track.skew_ns.saturating_abs());
        self.largest_skew_ns = skews.max().unwrap_or(0);
        self.span = self.whole_span();
    }

    /// Adds marks to the chart, such as marks for findings.
    pub fn add_marks(&mut self, marks: impl IntoIterator<Item = Mark>) {
        let is_whole = self.span == self.whole_span();
        self.marks.extend(marks.into_iter().map(|mark| Mark {
            label: clean(&mark.label),
            ..mark
        }));
        self.marks.sort_by_key(|mark| mark.time_ns);
        if is_whole {
            self.span = self.whole_span();
        }
    }

    /// Adds the diagnosis of a run to the chart: a mark for each finding that has an onset, the
    /// verdict, and the quantity that the leading finding is about.
    pub fn add_diagnosis(&mut self, run: &Run, diagnosis: &Diagnosis) {
        self.add_marks(marks_of_diagnosis(diagnosis));
        self.focus = Quantity::of(run, diagnosis).and_then(|quantity| {
            let sources = self.tracks.iter().chain(&self.hosts);
            Focus::of(&quantity, run, sources, self.zero_ns?)
        });
        let findings = diagnosis.findings();
        let gravest = findings.first();
        self.verdict = Some((
            gravest.map_or(Severity::Info, |finding| finding.severity),
            clean_paragraph(&diagnosis.headline()),
        ));
        self.advice = gravest
            .filter(|finding| finding.severity > Severity::Info)
            .map(|finding| plain_paragraph(&finding.advice));
        let lines = gravest.map_or_else(Vec::new, |finding| cause_lines(finding));
        self.cause = lines.iter().map(|line| plain_paragraph(line)).collect();
        let notes = note_lines(diagnosis);
        self.notes = notes.iter().map(|line| clean_paragraph(line)).collect();
    }

    /// Removes the tracks, marks, phases and failed allocations of all ranks for which `keep`
    /// returns false.
    pub fn keep_ranks(&mut self, keep: impl Fn(i64) -> bool) {
        self.tracks.retain(|track| keep(track.rank));
        self.marks.retain(|mark| mark.rank.is_none_or(&keep));
        self.phases.retain(|phase| keep(phase.rank));
        self.hosts.retain(|track| keep(track.rank));
        self.requests.retain(|request| keep(request.rank));
        self.focus = self.focus.take().filter(|focus| keep(focus.track.rank));
        self.settle();
    }

    /// The tracks (the memory of one device or host over time), in order of rank.
    pub fn tracks(&self) -> &[DrawnTrack] {
        &self.tracks
    }

    /// The host memory of the ranks whose device memory is in [`Self::tracks`].
    pub fn hosts(&self) -> &[DrawnTrack] {
        &self.hosts
    }

    /// The phases by start and depth, with their times on the clocks of their ranks.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The ranks that have samples, in ascending order.
    pub fn ranks(&self) -> Vec<i64> {
        let mut ranks: Vec<i64> = self.tracks.iter().map(|track| track.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The start of the run in nanoseconds on the shared clock of all ranks, from which all times are
    /// counted; `None` without samples.
    pub fn start_ns(&self) -> Option<i64> {
        let whole = self.whole_span().map(|span| span.from);
        whole.and(self.zero_ns.or(whole))
    }

    /// The times of the first and the last sample of any resource, on the shared clock of all ranks.
    pub fn first_and_last_ns(&self) -> Option<(i64, i64)> {
        let tracks = self.tracks.iter().chain(&self.hosts);
        let spans = tracks.filter_map(DrawnTrack::span);
        let span = spans.reduce(|a, b| Span::new(a.from.min(b.from), a.to.max(b.to)))?;
        Some((span.from, span.to))
    }

    /// Whether the leading finding is about the resource of a track, or about host memory of its
    /// rank.
    pub fn leads(&self, track: &DrawnTrack) -> bool {
        self.focus.as_ref().is_some_and(|focus| focus.is_of(track))
    }

    /// The values of the leading finding's quantity, as the only measure of a track, with its name;
    /// `None` without a finding.
    pub fn leading(&self) -> Option<(&DrawnTrack, Measure, &'static str)> {
        let focus = self.focus.as_ref()?;
        Some((&focus.track, focus.measure, focus.name))
    }

    /// The measure of the memory that the processes of the run use themselves, as far as known.
    pub fn own_measure(&self) -> Measure {
        compared_measure(&self.tracks)
    }

    /// The measure by which ranks are compared: that of the leading finding if it is about device
    /// memory, otherwise the device memory of each process if it is known for all ranks, otherwise
    /// the device's used memory or a counter of the allocator.
    pub fn compared_measure(&self) -> Measure {
        let of_finding = self.focus.as_ref().filter(|focus| !focus.on_host);
        let of_finding = of_finding.map(|focus| focus.measure).filter(|measure| {
            let mut tracks = self.tracks.iter();
            tracks.all(|track| track.is_host() || track.knows(*measure))
        });
        if let Some(measure) = of_finding {
            return measure;
        }
        self.own_measure()
    }

    /// The highest memory use of a rank of the run, whose coverage is given. If the device memory of
    /// each process is known, only the memory of the run's own processes counts, because other
    /// programs may use the same device.
    pub fn peak(&self, coverage: &[RankCoverage]) -> Option<i64> {
        let measure = self.own_measure();
        let ranks = coverage.iter();
        match measure {
            Measure::Own => {
                let tracks = self.tracks.iter();
                let values = tracks.flat_map(|track| track.values(measure));
                values.copied().filter(|value| *value != UNKNOWN).max()
            }
            Measure::Used => ranks.filter_map(|rank| rank.peaks.used).max(),
            Measure::Reserved => ranks.filter_map(|rank| rank.peaks.reserved).max(),
            _ => ranks.filter_map(|rank| rank.peaks.allocated).max(),
        }
    }

    /// The number of samples in all tracks.
    pub fn samples(&self) -> usize {
        self.tracks.iter().map(|track| track.times().len()).sum()
    }

    /// Restricts the chart to a time range; fails if the range contains no samples. `None` means
    /// the start or the end of the recording.
    pub fn between(&mut self, from_ns: Option<i64>, to_ns: Option<i64>) -> Result<(), DrawError> {
        let whole = self.whole_span().ok_or(DrawError::NoSamples)?;
        let span = Span::new(
            from_ns.unwrap_or(whole.from).max(whole.from),
            to_ns.unwrap_or(whole.to).min(whole.to),
        );
        let outside = from_ns.is_some_and(|from| from > whole.to)
            || to_ns.is_some_and(|to| to < whole.from)
            || from_ns.zip(to_ns).is_some_and(|(from, to)| from > to);
        if outside
            || self
                .tracks
                .iter()
                .chain(&self.hosts)
                .all(|track| track.within(span).is_empty())
        {
            return Err(DrawError::NothingInSpan {
                from: time::moment(whole.from),
                to: time::moment(whole.to),
            });
        }
        self.span = Some(span);
        Ok(())
    }

    fn whole_span(&self) -> Option<Span> {
        let (from, to) = self.first_and_last_ns()?;
        Some(Span::new(from, self.end_after(Span::new(from, to))))
    }

    /// The end of the shown time range. The range includes the event that ended the run, which
    /// comes after the last sample. A mark whose time is far from all samples is ignored, because
    /// the clock that it was recorded with must be wrong.
    fn end_after(&self, sampled: Span) -> i64 {
        let near = sampled.end_with_slack();
        let reach = (sampled.length() / 10).max(LONGEST_END_NS);
        let far = sampled.to.saturating_add(reach);
        let marks = self.marks.iter();
        let times = marks.map(|mark| self.shared_ns(mark.rank, mark.time_ns));
        let last = times.filter(|time| *time > near && *time <= far).max();
        last.unwrap_or(sampled.to)
    }

    /// The time range that the chart shows.
    pub(crate) fn shown(&self) -> Result<Span, DrawError> {
        self.span.ok_or(DrawError::NoSamples)
    }

    /// Converts a time from the clock of a rank to the shared clock of all ranks; without a rank, the
    /// time is already on the shared clock.
    pub(crate) fn shared_ns(&self, rank: Option<i64>, time_ns: i64) -> i64 {
        let of_rank = |rank| self.tracks.iter().find(|track| track.rank == rank);
        let track = rank.and_then(of_rank);
        track.map_or(time_ns, |track| track.shared_ns(time_ns))
    }

    /// The name of a track in a chart: its rank, and its device if a rank of the chart has several
    /// devices.
    pub(crate) fn track_name(&self, track: &DrawnTrack) -> String {
        if self.ranks().len() < self.tracks.len() {
            format!("rank {} device {}", track.rank, track.device_id)
        } else {
            format!("rank {}", track.rank)
        }
    }

    /// The failed allocations of a track, with their times on the shared clock of all ranks.
    pub(crate) fn requests_for(&self, track: &DrawnTrack) -> Vec<FailedRequest> {
        let mine = self.requests.iter().filter(|request| request.is_of(track));
        mine.map(|request| FailedRequest {
            time_ns: track.shared_ns(request.time_ns),
            ..*request
        })
        .collect()
    }

    /// The marks inside the shown time range in order of time, with their times on the shared clock
    /// of all ranks.
    pub fn marks(&self) -> Vec<Mark> {
        let Ok(span) = self.shown() else {
            return Vec::new();
        };
        let marks = self.marks.iter().map(|mark| Mark {
            time_ns: self.shared_ns(mark.rank, mark.time_ns),
            end_ns: mark.end_ns.map(|end| self.shared_ns(mark.rank, end)),
            ..mark.clone()
        });
        // Events just after the last sample, such as an error or the end of the session, are
        // included in the chart.
        let last = span.end_with_slack();
        marks
            .filter(|mark| mark.end_ns.unwrap_or(mark.time_ns) >= span.from && mark.time_ns <= last)
            .collect()
    }

    /// The heading of the chart: the title, if one is set, or the name of the kind of chart
    /// (`kind`) with the name of the program or the id of the job.
    pub(crate) fn heading(&self, kind: &str) -> String {
        if let Some(title) = &self.title {
            return clean(title);
        }
        if let Some(program) = &self.program {
            return format!("{program}: {}", kind.to_lowercase());
        }
        let job = self.tracks.iter().find_map(|track| track.job_id.as_deref());
        match job {
            // torchrun gives the id `none` to a job for which the user gave no id.
            None | Some("none") => kind.to_owned(),
            Some(job) => format!("{kind}: {job}"),
        }
    }

    /// Host, ranks, number of samples, duration and start time in one line.
    pub(crate) fn subtitle(&self) -> String {
        let mut parts = Vec::new();
        let mut hosts: Vec<&str> = self
            .tracks
            .iter()
            .map(|track| track.host.as_str())
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        match hosts.as_slice() {
            [] | [""] => {}
            [host] => parts.push(format!("host {host}")),
            hosts => parts.push(format!("{} hosts", hosts.len())),
        }
        match self.ranks().as_slice() {
            [] => {}
            [rank] => {
                if self.tracks.iter().all(DrawnTrack::is_host) {
                    parts.push(format!("rank {rank}, host memory"));
                } else if !self.tracks.iter().all(|track| track.host.is_empty()) {
                    parts.push(format!("rank {rank}"));
                }
            }
            ranks => parts.push(counted(ranks.len(), "rank")),
        }
        parts.push(counted(self.samples(), "sample"));
        if let Ok(span) = self.shown() {
            parts.push(human_duration(span.length()));
            parts.push(format!("from {}", time::moment(span.from)));
        }
        parts.join("  ·  ")
    }

    /// Describes by how much the clocks of ranks were corrected; `None` if no correction exceeds
    /// one millisecond.
    pub(crate) fn skew_note(&self) -> Option<String> {
        let noticeable = self.largest_skew_ns > 1_000_000;
        noticeable.then(|| {
            format!(
                "clocks of the ranks corrected by up to {}",
                human_duration(self.largest_skew_ns)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::MarkKind;

    #[test]
    fn a_job_that_nobody_named_is_not_in_the_heading() {
        let heading = |job: &str| {
            let mut track = DrawnTrack::default();
            track.job_id = Some(job.to_owned());
            let story = Story {
                tracks: vec![track],
                ..Story::default()
            };
            story.heading("Memory")
        };
        assert_eq!(heading("none"), "Memory");
        assert_eq!(heading("llama"), "Memory: llama");
    }

    #[test]
    fn what_ended_a_run_is_in_the_picture_and_an_odd_clock_is_not() {
        const SECOND: i64 = 1_000_000_000;
        let points = (0..8).map(|second| (second * SECOND, 1, 1, String::new()));
        let mut story = Story::of_tracks(vec![DrawnTrack::from_points(points.collect())]);
        let killed = |time_ns| Mark {
            time_ns,
            end_ns: None,
            rank: None,
            severity: Severity::Critical,
            label: "killed".into(),
            detail: None,
            kind: MarkKind::Oom,
            on_host: false,
        };
        story.add_marks([killed(8 * SECOND), killed(3600 * SECOND)]);
        let times = |story: &Story| -> Vec<i64> {
            let marks = story.marks().into_iter();
            marks.map(|mark| mark.time_ns / SECOND).collect()
        };
        assert_eq!(times(&story), [8]);
        assert_eq!(story.shown().unwrap(), Span::new(0, 8 * SECOND));
        story.between(None, Some(5 * SECOND)).unwrap();
        assert!(times(&story).is_empty());
    }
}
