//! `host_leak`: the host memory of a process keeps growing along a straight line until the end of
//! the recording.
//!
//! File-backed memory is not counted, because the kernel can reclaim it. The start-up of a process
//! is not judged, because importing modules and loading data allocate memory once and keep it.

use stormlog_format::whole;

use super::answer::Answer;
use super::cause::host_inspections;
use super::detector::{Detector, Judged};
use super::evidence::series::Series;
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use super::growth::straight::{self, Line};
use crate::timeline::{End, Process, Role, Run, Track, float};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::HostLeak,
    title: "Host memory leak",
    label: "host memory leak",
    resource: Judged::Host,
    is_growth: true,
    draws_end: false,
    formerly: Some(Kind::AllocatorLeak),
    check: |context| context.of_host(check),
};

/// Minimum number of samples of a process needed to judge whether its host memory grows.
const MIN_SAMPLES: usize = 48;
/// Numbers of time blocks that the samples are divided into, tried in this order; memory must rise
/// in nearly every block.
const BLOCKS: [usize; 3] = [24, 12, 8];
/// Growth counts as strong only if it was confirmed in at least this many time blocks. Growth that
/// is not strong is only a note.
const MANY_BLOCKS: usize = 12;
/// Smallest growth of host memory that is reported, in bytes. Without a leak, ordinary heaps grow
/// and shrink by less than that.
const LEAST: f64 = 16.0 * 1_048_576.0;
/// The processes that grow are reported one by one when their growth rates add up to at least this
/// share of the growth rate of all processes of the rank together. Otherwise one growth is reported
/// for all processes together.
const OWN_SHARE: f64 = 0.3;
/// Growth counts as strong only if its rate in the last third is at least this share of its rate
/// in the first third; otherwise it may be flattening out.
const MIN_BEND: f64 = 0.7;
/// Growth of a program that ended normally is a warning when it lasted `MANY_STEPS`, has reached
/// `LARGE_SHARE` of the memory limit, and would fill the rest within `SOON_S` seconds. A buffer
/// that fills up grows for fewer steps, or would reach the memory limit later.
const MANY_STEPS: f64 = 50.0;
const LARGE_SHARE: f64 = 0.05;
const SOON_S: f64 = 3600.0;
/// Growth of any size is a warning when it lasted `VERY_MANY_STEPS` at an almost constant rate and
/// would reach the memory limit within `LATER_S` seconds.
const VERY_MANY_STEPS: f64 = 200.0;
const EVEN_BEND: f64 = 0.85;
const LATER_S: f64 = 86_400.0;
/// A kind of memory (such as anonymous or shared) that makes up at least this share of the growth
/// is named in the finding.
const MOST_OF_IT: f64 = 0.6;

/// Growth of the host memory of one process, or of all processes of a rank together.
#[derive(Debug, Clone)]
pub(super) struct HostGrowth<'a> {
    pub(super) track: &'a Track,
    process: Option<&'a Process>,
    part: Part,
    pub(super) line: Line,
    /// Timestamp of the first sample; the times in `line` are seconds since then.
    start_ns: i64,
    steps: Option<f64>,
    /// Bytes left until the memory limit of the process is reached, and that limit in bytes.
    left: Option<f64>,
    limit: Option<f64>,
    pub(super) end: End,
    pub(super) is_strong: bool,
    /// Whether the session recorded only the total memory of all processes, and not the memory of
    /// each process.
    is_alone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    Anonymous,
    Shared,
    Pinned,
}

impl Part {
    fn words(self) -> &'static str {
        match self {
            Self::All => "host memory",
            Self::Anonymous => "anonymous host memory",
            Self::Shared => "shared host memory",
            Self::Pinned => "pinned host memory",
        }
    }
}

/// The processes whose host memory grows, and whether enough was recorded to judge host memory.
#[derive(Debug, Default)]
pub(super) struct HostEvidence<'a> {
    pub(super) growths: Vec<HostGrowth<'a>>,
    is_recorded: bool,
    is_long_enough: bool,
}

impl<'a> HostEvidence<'a> {
    /// Looks for growing processes in the host memory samples that `stormlog run` recorded.
    pub(super) fn of(run: &'a Run) -> Self {
        let mut found = Self::default();
        let tracks = run.tracks.iter().filter(|track| track.is_host_of_run());
        for track in tracks.filter(|track| !run.is_start_up_only(track)) {
            found.is_recorded = true;
            found.is_long_enough |= track.t_ns.len() >= MIN_SAMPLES;
            found.growths.extend(growths_of(run, track));
        }
        found
    }

    /// Whether `stormlog run` recorded host memory beyond the start-up of the program.
    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

/// Reports each growth of host memory in `evidence`: of one process, or of all processes of a rank
/// together.
fn check(run: &Run, evidence: &HostEvidence<'_>) -> Answer {
    if !evidence.is_long_enough {
        return Answer::NotEnoughEvidence;
    }
    let has_ranks = run.has_several_ranks();
    let found = evidence.growths.iter();
    Answer::from_findings(found.map(|growth| growth.describe(has_ranks)).collect())
}

fn growths_of<'a>(run: &'a Run, track: &'a Track) -> Vec<HostGrowth<'a>> {
    let mut per_process: Vec<HostGrowth<'a>> = processes(run, track)
        .filter_map(|process| of_process(run, track, process))
        .collect();
    let Some(total) = line(&series_of(&track.t_ns, |i| track.allocated.get(i))) else {
        // Each process is judged alone, because one worker may leak while another one shrinks.
        return per_process;
    };
    per_process.retain(|growth| growth.line.rate >= OWN_SHARE * total.rate / 2.0);
    let explained: f64 = per_process.iter().map(|growth| growth.line.rate).sum();
    if explained >= OWN_SHARE * total.rate {
        return per_process;
    }
    let start_ns = track.t_ns.iter().copied().min().unwrap_or(0);
    let part = if rise(track, &total, start_ns, |i| track.shared.get(i)) {
        Part::Shared
    } else if rise(track, &total, start_ns, |i| track.anonymous.get(i)) {
        Part::Anonymous
    } else {
        Part::All
    };
    vec![growth(run, track, None, part, total, start_ns)]
}

fn processes<'a>(run: &'a Run, track: &'a Track) -> impl Iterator<Item = &'a Process> {
    let of_track = |process: &&Process| {
        process.session_id == track.session_id && process.t_ns.len() >= MIN_SAMPLES
    };
    run.processes.iter().filter(of_track)
}

fn of_process<'a>(run: &'a Run, track: &'a Track, process: &'a Process) -> Option<HostGrowth<'a>> {
    let at = |column: &[i64], i: usize| column.get(i).copied();
    let line = line(&series_of(&process.t_ns, |i| {
        Some(at(&process.anonymous, i)?.saturating_add(at(&process.shared, i)?))
    }))?;
    let anonymous = series_of(&process.t_ns, |i| at(&process.anonymous, i));
    let first = anonymous.index_at(line.onset);
    let part = if explains(&line, anonymous.y[first..].iter().copied()) {
        Part::Anonymous
    } else {
        Part::Shared
    };
    let start_ns = process.t_ns.first().copied().unwrap_or(0);
    Some(growth(run, track, Some(process), part, line, start_ns))
}

fn growth<'a>(
    run: &Run,
    track: &'a Track,
    process: Option<&'a Process>,
    part: Part,
    line: Line,
    start_ns: i64,
) -> HostGrowth<'a> {
    let devices = run
        .tracks
        .iter()
        .filter(|other| !other.is_host() && other.rank == track.rank && other.pid == track.pid);
    let (mut steps, mut is_pinned) = (None, false);
    for device in devices {
        let from = at(start_ns, line.onset);
        let counted = (0..device.t_ns.len())
            .filter(|&i| device.t_ns[i] >= from)
            .filter_map(|i| device.step_count.get(i).or(device.step.get(i)));
        let (low, high) = counted.fold((i64::MAX, i64::MIN), |(low, high), count| {
            (low.min(count), high.max(count))
        });
        if high > low {
            let counted = float(high.saturating_sub(low));
            steps = Some(steps.map_or(counted, |steps: f64| steps.max(counted)));
        }
        is_pinned |= rise(device, &line, start_ns, |i| device.pinned.get(i));
    }
    let last = track.t_ns.len().saturating_sub(1);
    let limit = track
        .total
        .get(last)
        .map(float)
        .filter(|&bytes| bytes > 0.0);
    let free = track.free.get(last).map(float);
    let left = free.or_else(|| Some(limit? - float(track.used.get(last)?)));
    let ends = run.ends.iter();
    let mut ends = ends.filter(|one| one.rank == track.rank && one.pid == track.pid);
    HostGrowth {
        track,
        process,
        part: if is_pinned { Part::Pinned } else { part },
        line,
        start_ns,
        steps,
        left: left.map(|bytes| bytes.max(0.0)),
        limit,
        end: ends.next().map_or_else(|| run.end(), |one| one.end.clone()),
        is_alone: !run
            .processes
            .iter()
            .any(|one| one.session_id == track.session_id),
        is_strong: line.blocks >= MANY_BLOCKS && line.bend >= MIN_BEND,
    }
}

/// The bytes of the samples with known values, over the seconds since the first timestamp.
fn series_of(t_ns: &[i64], value: impl Fn(usize) -> Option<i64>) -> Series {
    let start = t_ns.first().copied().unwrap_or(0);
    let mut last = f64::NEG_INFINITY;
    let mut series = Series::default();
    for (i, &at_ns) in t_ns.iter().enumerate() {
        let t = float(at_ns.saturating_sub(start)) / 1e9;
        if let Some(bytes) = value(i).filter(|_| t > last) {
            series.push(t, float(bytes));
            last = t;
        }
    }
    series
}

fn line(series: &Series) -> Option<Line> {
    if series.len() < MIN_SAMPLES {
        return None;
    }
    BLOCKS
        .into_iter()
        .find_map(|blocks| straight::find(series, blocks, LEAST))
}

/// Whether one kind of memory in a track explains the growth along `line`.
fn rise(track: &Track, line: &Line, start_ns: i64, value: impl Fn(usize) -> Option<i64>) -> bool {
    let from = at(start_ns, line.onset);
    let since = (0..track.t_ns.len()).filter(|&i| track.t_ns[i] >= from);
    explains(line, since.filter_map(value).map(float))
}

/// Whether memory of one kind, given by its bytes since the onset of `line`, rose by at least
/// `MOST_OF_IT` times the growth along the line.
fn explains(line: &Line, mut bytes: impl Iterator<Item = f64>) -> bool {
    let Some(first) = bytes.next() else {
        return false;
    };
    bytes.fold(0.0, |most: f64, bytes| most.max(bytes - first)) >= MOST_OF_IT * line.grown
}

fn at(start_ns: i64, seconds: f64) -> i64 {
    start_ns.saturating_add(whole(seconds * 1e9))
}

impl HostGrowth<'_> {
    /// Seconds from the last sample until the memory limit is reached at the current growth rate.
    pub(super) fn time_to_full_s(&self) -> Option<f64> {
        self.left.map(|left| left / self.line.rate)
    }

    /// The severity of the growth. Memory that a program holds at its normal end may be a cache
    /// that was filling up. After a normal end, growth is therefore a warning only in the two cases
    /// that are described at `MANY_STEPS` and at `VERY_MANY_STEPS`.
    fn severity(&self) -> Severity {
        if !self.is_strong {
            return Severity::Info;
        }
        let is_large = self
            .limit
            .is_some_and(|limit| self.line.grown >= LARGE_SHARE * limit)
            && self.time_to_full_s().is_some_and(|left| left <= SOON_S);
        let has_steps = |least: f64| self.steps.is_some_and(|steps| steps >= least);
        let is_even = self.line.bend >= EVEN_BEND
            && has_steps(VERY_MANY_STEPS)
            && self.time_to_full_s().is_some_and(|left| left <= LATER_S);
        let is_certain = is_even || (is_large && has_steps(MANY_STEPS));
        if self.end.is_normal() && !is_certain {
            Severity::Info
        } else {
            Severity::Warning
        }
    }

    /// The name of the process that grows: `The program`, `Worker 4711 (pt_data_worker)`.
    fn name(&self, has_ranks: bool) -> String {
        let rank = self.track.rank;
        let name = match self.process {
            None if self.is_alone => "The program".to_owned(),
            None => "All processes together".to_owned(),
            Some(process) => {
                let named = if process.name.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", process.name)
                };
                match process.role {
                    Role::Program => format!("The program{named}"),
                    Role::Worker => format!("Worker {}{named}", process.pid),
                    Role::Subprocess => format!("Subprocess {}{named}", process.pid),
                }
            }
        };
        if has_ranks {
            format!("Rank {rank}: {name}")
        } else {
            name
        }
    }

    fn describe(&self, has_ranks: bool) -> Finding {
        let line = &self.line;
        let origin = self
            .track
            .t_ns
            .iter()
            .copied()
            .min()
            .unwrap_or(self.start_ns);
        let onset_ns = at(self.start_ns, line.onset);
        let since = float(onset_ns.saturating_sub(origin)) / 1e9;
        let severity = self.severity();
        let mut finding = draft::of_track(Kind::HostLeak, severity, self.track);
        finding.onset_ns = Some(onset_ns);
        finding.end_ns = Some(at(self.start_ns, line.end));
        finding.magnitude_bytes = Some(draft::whole(line.grown));
        finding.rate_bytes_per_s = Some(line.rate);
        finding.time_to_full_s = self.time_to_full_s();
        let share = self.limit.map_or(0.01, |limit| line.grown / limit);
        finding.confidence = confidence::of_growth(line.misfit, share);
        finding.evidence = vec![
            ("share_given_back", line.given_back),
            ("share_unexplained", line.misfit),
            ("late_pace_of_early", line.bend),
        ];
        if let Some(process) = self.process {
            finding.evidence.push(("pid", float(process.pid)));
        }
        let per_step = words::per_step(draft::add_steps(&mut finding, line.grown, self.steps));
        let full = self
            .time_to_full_s()
            .filter(|_| !self.end.is_out_of_memory());
        let full = full.map_or_else(String::new, |left| {
            let left = words::duration(left);
            if self.end.may_go_on() {
                format!("; the memory limit is reached in about {left}")
            } else {
                format!("; a longer run would have reached the memory limit after another {left}")
            }
        });
        let found = self
            .process
            .filter(|_| self.part != Part::Shared)
            .and_then(|process| host_inspections::of(&process.inspections, line.rate));
        let cause = found.as_ref().map(|found| &*found.words);
        let (name, part) = (self.name(has_ranks), self.part.words());
        let (rate, grown) = (words::rate(line.rate), words::bytes(line.grown));
        let since = words::moment(since);
        finding.explanation = if severity == Severity::Info {
            let cause = cause.map_or_else(String::new, |words| format!("; {words}"));
            format!(
                "{name}: {part} grew by {grown} up to the end ({rate}{per_step} since {since}), \
                 caused by a leak or by a buffer that is not full yet{cause}{full}"
            )
        } else {
            let cause = cause.map_or_else(String::new, |words| format!("{words}; "));
            format!(
                "{name} leaks {rate}{per_step} of {part} since {since}: {cause}{part} has \
                 grown by {grown}{full}"
            )
        };
        let of_part = match self.part {
            Part::Pinned => {
                "Look for batches copied to pinned memory and kept: lists of outputs moved to the \
                 CPU, non-blocking copies that nothing waits for, data loaders with pin_memory \
                 whose batches are held on to"
            }
            Part::Shared => {
                "Look for tensors and arrays in shared memory that are kept: batches of data \
                 loader workers that are held on to, multiprocessing queues that are never emptied, \
                 files in /dev/shm"
            }
            Part::All | Part::Anonymous => {
                "Look for objects kept across steps: results summed or appended, caches without a \
                 bound, data loaders that hold on to their batches; compare two snapshots of \
                 tracemalloc some minutes apart and see which line grows"
            }
        };
        finding.advice = found.as_ref().map_or(of_part, |found| found.advice).into();
        finding.cause = found.map(|found| found.cause);
        finding
    }
}
