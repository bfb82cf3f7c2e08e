//! The run on the screen. The tables of the shown run are computed once, and not every time the
//! screen is drawn.

use std::collections::BTreeMap;
use std::sync::Arc;

use stormlog_analysis::analyze::{Report, RunReport};
use stormlog_analysis::detect::{Kind, Severity};
use stormlog_analysis::timeline::RankCoverage;
use stormlog_report::{DrawnTrack, Mark, Measure, Phase, Story, UNKNOWN};

/// The search for the phase at a given time checks at most this number of phases: the last ones
/// that began before that time.
const PHASES_BACK: usize = 10_000;

/// The run that the terminal interface shows, and the tables that are drawn about it.
#[derive(Debug)]
pub(crate) struct OpenedRun {
    pub(crate) report: Arc<Report>,
    pub(crate) story: Story,
    /// The index of the shown run in the list of runs of the report.
    pub(crate) index: usize,
    /// The marks in order of time, with their times on the shared clock of all ranks.
    pub(crate) marks: Vec<Mark>,
    /// All ranks of the job, also those without a recording; ranks with findings come first.
    pub(crate) ranks: Vec<RankLine>,
    /// The table of phases: one line per phase, the phase with the longest total duration first.
    pub(crate) phases: Vec<PhaseLine>,
}

/// A line of the table of ranks on the diagnostics tab.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankLine {
    pub(crate) rank: i64,
    /// The sample count, peaks and sampling gaps of the rank's recording; `None` if nothing was
    /// recorded.
    pub(crate) coverage: Option<RankCoverage>,
    /// The peak in bytes of the rank's hidden memory (device memory outside the framework's
    /// allocator); `None` if it is unknown.
    pub(crate) hidden_peak: Option<i64>,
    /// The severity and kind of the rank's most severe finding; `None` if the rank has no finding.
    pub(crate) finding: Option<(Severity, Kind)>,
    /// Whether a problem that affects all ranks began on this rank.
    pub(crate) is_first_cause: bool,
}

/// A line of the table of phases, which sums up all occurrences of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseLine {
    pub(crate) path: String,
    pub(crate) count: usize,
    pub(crate) ranks: Vec<i64>,
    pub(crate) total_ns: i64,
    pub(crate) longest_ns: i64,
    pub(crate) peak_used: Option<i64>,
}

impl OpenedRun {
    /// Shows the run with the given index in the report; `story` is the content of this run's
    /// chart.
    pub(crate) fn new(report: Arc<Report>, index: usize, story: Story) -> Self {
        let run = report.runs.get(index);
        Self {
            index,
            marks: story.marks(),
            ranks: run.map_or_else(Vec::new, |run| rank_lines(run, &story)),
            phases: phase_lines(&story),
            report,
            story,
        }
    }

    /// The analysis of the shown run; `None` if the report contains no run.
    pub(crate) fn shown(&self) -> Option<&RunReport> {
        self.report.runs.get(self.index)
    }

    /// A sentence that names the rank on which a problem of all ranks began, such as a leak.
    /// stormlog 0.3.9 names a rank even if the memory of all ranks only fluctuates; the detector
    /// `rank_first_cause` names a rank only if its memory rose clearly before that of the others.
    pub(crate) fn first_cause(&self) -> Option<&str> {
        let mut findings = self.shown()?.diagnosis.findings().into_iter();
        let first = findings.find(|finding| finding.kind == Kind::RankFirstCause)?;
        Some(&first.explanation)
    }

    /// The rank that the leading finding is about, if the run has several ranks, and the finding's
    /// kind.
    pub(crate) fn leading_rank(&self) -> Option<(u32, Kind)> {
        let findings = self.shown()?.diagnosis.findings();
        // A risk or an error has its cause in the growth that was found beside it.
        let grows = |finding: &&&stormlog_analysis::detect::Finding| {
            finding.severity > Severity::Info && finding.kind.detector().is_growth
        };
        let leading = *findings.iter().find(grows).or(findings.first())?;
        let has_ranks = self.ranks.len() > 1 && leading.severity > Severity::Info;
        let rank = leading.rank.filter(|_| has_ranks)?;
        Some((rank, leading.kind))
    }

    /// The innermost phase (a named time span of the program) in which a rank was at a given time.
    pub(crate) fn phase_at(&self, rank: i64, at_ns: i64) -> Option<&Phase> {
        let phases = self.story.phases();
        let end = phases.partition_point(|phase| phase.start_ns <= at_ns);
        phases[..end]
            .iter()
            .rev()
            .take(PHASES_BACK)
            .filter(|phase| phase.rank == rank && at_ns <= phase.end_ns)
            .max_by_key(|phase| phase.depth)
    }

    /// The index of the track that the verdict is about: the track of the most severe finding.
    pub(crate) fn main_track(&self) -> Option<usize> {
        let tracks = self.story.tracks();
        if let Some(leading) = tracks.iter().position(|track| self.story.leads(track)) {
            return Some(leading);
        }
        let rank = self.shown().and_then(|run| {
            let findings = run.diagnosis.findings();
            findings.iter().find_map(|finding| finding.rank)
        });
        let of_rank = |rank: u32| {
            tracks
                .iter()
                .position(|track| track.rank == i64::from(rank))
        };
        rank.and_then(of_rank).or((!tracks.is_empty()).then_some(0))
    }
}

fn rank_lines(run: &RunReport, story: &Story) -> Vec<RankLine> {
    let mut lines: BTreeMap<i64, RankLine> = BTreeMap::new();
    let line = |rank: i64, coverage: Option<RankCoverage>| RankLine {
        rank,
        coverage,
        ..RankLine::default()
    };
    for one in &run.ranks {
        lines.insert(one.rank, line(one.rank, Some(one.clone())));
    }
    for rank in &run.missing_ranks {
        lines.entry(*rank).or_insert_with(|| line(*rank, None));
    }
    for track in story.tracks() {
        let known = track.values(Measure::Hidden).iter();
        let peak = known.copied().filter(|value| *value != UNKNOWN).max();
        if let Some(line) = lines.get_mut(&track.rank) {
            line.hidden_peak = line.hidden_peak.max(peak);
        }
    }
    // Findings are sorted by severity, so the first finding of a rank is its most severe one, which
    // the table shows.
    for finding in run.diagnosis.findings() {
        let of_rank = finding.rank.map(i64::from);
        let Some(line) = of_rank.and_then(|rank| lines.get_mut(&rank)) else {
            continue;
        };
        line.is_first_cause |= finding.kind == Kind::RankFirstCause;
        line.finding.get_or_insert((finding.severity, finding.kind));
    }
    let mut lines: Vec<RankLine> = lines.into_values().collect();
    // The table lists ranks that need attention first: the rank where the problem began, then the
    // ranks with the most severe findings, then the ranks without samples.
    lines.sort_by_key(|line| {
        let severity = line.finding.map(|(severity, _)| severity);
        std::cmp::Reverse((line.is_first_cause, severity, line.coverage.is_none()))
    });
    lines
}

fn phase_lines(story: &Story) -> Vec<PhaseLine> {
    let mut tracks: BTreeMap<i64, Vec<&DrawnTrack>> = BTreeMap::new();
    for track in story.tracks() {
        tracks.entry(track.rank).or_default().push(track);
    }
    let mut lines: BTreeMap<&str, PhaseLine> = BTreeMap::new();
    for phase in story.phases() {
        let line = lines.entry(&phase.path).or_insert_with(|| PhaseLine {
            path: phase.path.clone(),
            ..PhaseLine::default()
        });
        let length = phase.end_ns.saturating_sub(phase.start_ns);
        line.count += 1;
        line.total_ns = line.total_ns.saturating_add(length);
        line.longest_ns = line.longest_ns.max(length);
        if let Err(index) = line.ranks.binary_search(&phase.rank) {
            line.ranks.insert(index, phase.rank);
        }
        for track in tracks.get(&phase.rank).into_iter().flatten() {
            let peak = track.highest_in(Measure::Used, phase);
            line.peak_used = line.peak_used.max(peak);
        }
    }
    let mut lines: Vec<PhaseLine> = lines.into_values().collect();
    lines.sort_by(|a, b| (b.total_ns, &a.path).cmp(&(a.total_ns, &b.path)));
    lines
}
