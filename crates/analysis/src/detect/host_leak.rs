//! `host_leak`: the host memory of a process keeps growing along a straight line until the end of
//! the recording.
//!
//! File-backed memory is not counted, because the kernel can reclaim it. The start-up of a process
//! is not judged, because importing modules and loading data allocate memory once and keep it.

use stormlog_format::whole;

use super::answer::Answer;
use super::cause::host_inspections::{self, Fate, HostCause};
use super::detector::{Detector, Judged};
use super::evidence::series::Series;
use super::finding::line::GrowthSize;
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use super::growth::straight::{self, Line};
use crate::timeline::{End, Process, Role, Run, TimeZero, Track, float};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::HostLeak,
    title: "Host memory leak",
    noun: "leak",
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
/// Growth of a holder that nothing ends is a warning after `ENDLESS_S` seconds, and growth of one
/// that may end by itself after `MAY_END_S` seconds.
const ENDLESS_S: f64 = 20.0;
const MAY_END_S: f64 = 600.0;
/// Memory that rises at `STEEP` times the rate of the growth or faster, until it is within `NEAR` of
/// the fitted line (as a share of the growth), is the start-up of a process.
const STEEP: f64 = 3.0;
const NEAR: f64 = 0.02;
/// A kind of memory (such as anonymous or shared) that makes up at least this share of the growth
/// is named in the finding.
const MOST_OF_IT: f64 = 0.6;

/// Growth of the host memory of one process, or of all processes of a rank together.
#[derive(Debug, Clone)]
pub(super) struct HostGrowth<'a> {
    pub(super) track: &'a Track,
    process: Option<&'a Process>,
    pub(super) part: Part,
    pub(super) line: Line,
    /// Timestamp of the first sample; the times in `line` are seconds since then.
    pub(super) start_ns: i64,
    steps: Option<f64>,
    /// Bytes left until the memory limit of the process is reached, and that limit in bytes.
    left: Option<f64>,
    limit: Option<f64>,
    pub(super) end: End,
    pub(super) is_strong: bool,
    /// Whether the session recorded only the total memory of all processes, and not the memory of
    /// each process.
    is_alone: bool,
    /// What grows, as the inspections of the process show it.
    cause: Option<HostCause>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
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
    let zero = TimeZero::of(run);
    let found = found.map(|growth| growth.describe(&zero, has_ranks));
    Answer::from_findings(found.collect())
}

pub(super) fn growths_of<'a>(run: &'a Run, track: &'a Track) -> Vec<HostGrowth<'a>> {
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
    // While the interpreter shuts down, memory no longer grows.
    let ended_ns = process.ended_ns.unwrap_or(i64::MAX);
    let t_ns = &process.t_ns[..process.t_ns.partition_point(|&t_ns| t_ns <= ended_ns)];
    let line = line(&series_of(t_ns, |i| {
        Some(at(&process.anonymous, i)?.saturating_add(at(&process.shared, i)?))
    }))?;
    let anonymous = series_of(t_ns, |i| at(&process.anonymous, i));
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
    let mut steps = steps_since(track, at(start_ns, line.onset));
    let mut is_pinned = false;
    for device in devices {
        let counted = steps_since(device, at(start_ns, line.onset));
        steps = [steps, counted].into_iter().flatten().reduce(f64::max);
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
    let inspections = process.map_or(&[][..], |process| &process.inspections);
    let origin_ns = track.t_ns.iter().copied().min().unwrap_or(start_ns);
    let cause = if part == Part::Shared {
        host_inspections::of_shared(inspections, line.rate, origin_ns)
    } else {
        host_inspections::of(inspections, line.rate, origin_ns)
    };
    let is_private = part != Part::Shared;
    let fate = match &cause {
        Some(cause) => cause.fate,
        None if is_private && host_inspections::fills_reserved_memory(inspections) => Fate::Ends,
        None => Fate::Unknown,
    };
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
        cause,
        fate,
    }
}

/// The number of steps since a time that a track counts; `None` if it counts none.
fn steps_since(track: &Track, from_ns: i64) -> Option<f64> {
    let counted = (0..track.t_ns.len())
        .filter(|&i| track.t_ns[i] >= from_ns)
        .filter_map(|i| track.step_count.get(i).or(track.step.get(i)));
    let (low, high) = counted.fold((i64::MAX, i64::MIN), |(low, high), count| {
        (low.min(count), high.max(count))
    });
    (high > low).then(|| float(high.saturating_sub(low)))
}

/// The bytes of the samples with known values, over the seconds since the first timestamp.
pub(super) fn series_of(t_ns: &[i64], value: impl Fn(usize) -> Option<i64>) -> Series {
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
    let found = BLOCKS
        .into_iter()
        .find_map(|blocks| straight::find(series, blocks, LEAST))?;
    Some(after_start_up(series, found)).filter(|line| line.grown >= LEAST)
}

/// The line without the start-up of the process. Imports let memory rise much faster than the line
/// does, from below up to the line; where they are short, the line still fits.
fn after_start_up(series: &Series, line: Line) -> Line {
    let first = series.index_at(line.onset);
    let is_reached = |i: usize| {
        let level = line.level + line.rate * (series.t[i] - line.onset);
        series.y[i] >= level - NEAR * line.grown
    };
    let Some(reached) = (first..series.len()).find(|&i| is_reached(i)) else {
        return line;
    };
    let took = series.t[reached] - series.t[first];
    if took <= 0.0 || series.y[reached] - series.y[first] < STEEP * line.rate * took {
        return line;
    }
    let onset = series.t[reached];
    let grown = line.rate * (onset - line.onset);
    Line {
        onset,
        began: onset,
        grown_before: 0.0,
        level: line.level + grown,
        grown: line.grown - grown,
        ..line
    }
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
    /// The pid of the process that grows; `None` for all processes together.
    pub(super) fn pid(&self) -> Option<i64> {
        self.process.map(|process| process.pid)
    }

    /// The pid and the name of the process that grows.
    pub(super) fn process_name(&self) -> Option<(i64, String)> {
        self.process
            .map(|process| (process.pid, process.name.clone()))
    }

    /// The recorded values of the part of memory that grows. Pinned memory is recorded with the
    /// device; where it is not known, the memory of the process is returned.
    pub(super) fn recorded(&self, run: &Run) -> Series {
        let own = match (self.process, self.part) {
            (Some(process), part) => series_of(&process.t_ns, |i| {
                let (anonymous, shared) = (process.anonymous.get(i), process.shared.get(i));
                match part {
                    Part::Anonymous => anonymous.copied(),
                    Part::Shared => shared.copied(),
                    Part::All | Part::Pinned => Some(anonymous?.saturating_add(*shared?)),
                }
            }),
            (None, Part::Anonymous) => series_of(&self.track.t_ns, |i| self.track.anonymous.get(i)),
            (None, Part::Shared) => series_of(&self.track.t_ns, |i| self.track.shared.get(i)),
            (None, Part::All | Part::Pinned) => {
                series_of(&self.track.t_ns, |i| self.track.allocated.get(i))
            }
        };
        if self.part != Part::Pinned {
            return own;
        }
        let devices = run.tracks.iter().filter(|other| {
            !other.is_host() && other.rank == self.track.rank && other.pid == self.track.pid
        });
        let pinned = devices.map(|device| {
            let offset = float(
                device
                    .t_ns
                    .first()
                    .map_or(0, |first| first.saturating_sub(self.start_ns)),
            ) / 1e9;
            let series = series_of(&device.t_ns, |i| device.pinned.get(i));
            let samples = series.t.iter().zip(&series.y);
            samples.map(|(t, y)| (t + offset, *y)).collect::<Series>()
        });
        let highest = |series: &Series| series.y.iter().copied().fold(0.0, f64::max);
        pinned
            .filter(|series| series.len() > 0)
            .max_by(|a, b| highest(a).total_cmp(&highest(b)))
            .unwrap_or(own)
    }

    /// Seconds from the last sample until the memory limit is reached at the current growth rate.
    pub(super) fn time_to_full_s(&self) -> Option<f64> {
        self.left.map(|left| left / self.line.rate)
    }

    /// The severity of the growth, by what grows. Where that is not known, memory that a program
    /// holds at its normal end may be a cache that was filling up. After a normal end, such growth is
    /// a warning only in the two cases that are described at `MANY_STEPS` and at `VERY_MANY_STEPS`.
    pub(super) fn severity(&self) -> Severity {
        let lasted = self.line.end - self.line.onset;
        let is_likely = match self.fate {
            Fate::Endless if lasted >= ENDLESS_S => true,
            Fate::Ends => self.is_strong && self.end.is_out_of_memory(),
            Fate::MayEnd => self.is_strong && (lasted >= MAY_END_S || self.end.is_out_of_memory()),
            Fate::Endless | Fate::Unknown => {
                self.is_strong && (!self.end.is_normal() || self.is_certain())
            }
        };
        if is_likely {
            Severity::Warning
        } else {
            Severity::Info
        }
    }

    fn is_certain(&self) -> bool {
        let is_large = self
            .limit
            .is_some_and(|limit| self.line.grown >= LARGE_SHARE * limit)
            && self.time_to_full_s().is_some_and(|left| left <= SOON_S);
        let has_steps = |least: f64| self.steps.is_some_and(|steps| steps >= least);
        let is_even = self.line.bend >= EVEN_BEND
            && has_steps(VERY_MANY_STEPS)
            && self.time_to_full_s().is_some_and(|left| left <= LATER_S);
        is_even || (is_large && has_steps(MANY_STEPS))
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

    fn describe(&self, zero: &TimeZero, has_ranks: bool) -> Finding {
        let line = &self.line;
        let onset_ns = at(self.start_ns, line.onset);
        let since = zero.since_s(Some(self.track.rank), onset_ns);
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
        let bytes_per_step = draft::add_steps(&mut finding, line.grown, self.steps);
        let per_step = words::per_step(bytes_per_step);
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
        finding.may_go_on = self.end.may_go_on();
        finding.size_words = GrowthSize {
            bytes_per_step,
            rate_bytes_per_s: line.rate,
            memory: self.part.words(),
            grown_bytes: line.grown,
            full: self
                .time_to_full_s()
                .filter(|_| !self.end.is_out_of_memory())
                .map(|seconds| ("memory", seconds)),
            may_go_on: finding.may_go_on,
            excuse: match severity {
                Severity::Info => "may be a buffer that is not full yet",
                _ => "",
            },
        }
        .words();
        if self.process.is_some_and(|one| one.role != Role::Program) {
            finding.whose = uncapitalized(&self.name(has_ranks));
        }
        let cause = self.cause.as_ref().map(|found| &*found.words);
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
        let cause = self.cause.as_ref();
        finding.advice = cause.map_or(of_part, |found| found.advice).into();
        finding.cause = cause.map(|found| found.cause.clone());
        finding
    }
}

fn uncapitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use stormlog_format::{LineRole, Retention};

    use super::*;
    use crate::timeline::{HostHolder, HostInspection, RankEnd};

    const MIB: i64 = 1 << 20;
    const PID: i64 = 7;

    /// A program that grows by 2 MiB a second for `seconds` seconds, inspected in the middle, and
    /// that ended like this.
    fn severity(seconds: i64, end: End, inspection: HostInspection) -> Severity {
        let t_ns: Vec<i64> = (0..seconds * 2).map(|half| half * 500_000_000).collect();
        let level = |sample: i64| 300 * MIB + sample * MIB;
        let levels = 0..seconds * 2;
        let track = Track {
            session_id: "host".into(),
            device_id: -1,
            pid: PID,
            recorder: crate::timeline::RecordedBy::Run,
            allocated: levels.clone().map(|k| Some(level(k))).collect(),
            used: levels.clone().map(|k| Some(level(k))).collect(),
            total: levels.clone().map(|_| Some(64 << 30)).collect(),
            t_ns: t_ns.clone(),
            ..Track::default()
        };
        let process = Process {
            session_id: "host".into(),
            pid: PID,
            t_ns,
            anonymous: levels.clone().map(level).collect(),
            shared: levels.map(|_| 0).collect(),
            inspections: vec![inspection],
            ..Process::default()
        };
        let run = Run {
            tracks: vec![track],
            processes: vec![process],
            ends: vec![RankEnd {
                rank: 0,
                pid: PID,
                at_ns: None,
                end,
            }],
            ..Run::default()
        };
        let answer = check(&run, &HostEvidence::of(&run));
        let [leak] = answer.findings() else {
            panic!("{answer:?}")
        };
        leak.severity
    }

    fn of_holder(kind: &str, retention: Option<Retention>, has_ids: bool) -> HostInspection {
        HostInspection {
            inside_ms: Some(4000),
            objects_bytes: Some(8 * MIB),
            is_complete: true,
            is_python: true,
            holders: vec![HostHolder {
                name: "`kept` in `__main__`".into(),
                items: 800,
                items_gained: 60,
                bytes: 100 * MIB,
                bytes_gained: 8 * MIB,
                added_at: None,
                line_role: LineRole::Added,
                kind: kind.into(),
                retention,
                most_items: None,
                has_ids,
            }],
            ..HostInspection::default()
        }
    }

    const DONE: End = End::Exit { code: Some(0) };

    #[test]
    fn what_grows_decides_and_not_the_end() {
        let kept = of_holder("list", Some(Retention::Kept), false);
        for end in [DONE, End::StillRunning] {
            assert_eq!(severity(60, end, kept.clone()), Severity::Warning);
        }
        for retention in [Retention::Bounded, Retention::Removed, Retention::Read] {
            for end in [DONE, End::StillRunning] {
                let ends = of_holder("list", Some(retention), false);
                assert_eq!(severity(60, end, ends), Severity::Info, "{retention:?}");
            }
        }
        let graphs = of_holder("graphs", Some(Retention::Read), false);
        assert_eq!(severity(60, DONE, graphs), Severity::Warning);
    }

    #[test]
    fn the_shutdown_of_the_interpreter_is_not_judged() {
        // Grows for 40 s, then frees its objects for 20 s.
        let t_ns: Vec<i64> = (0..120).map(|half| half * 500_000_000).collect();
        let level = |sample: i64| (300 + sample.min(160 - sample)) * MIB;
        let run = |ended_ns| Run {
            tracks: vec![Track {
                session_id: "host".into(),
                device_id: -1,
                pid: PID,
                recorder: crate::timeline::RecordedBy::Run,
                allocated: (0..120).map(|k| Some(level(k))).collect(),
                t_ns: t_ns.clone(),
                ..Track::default()
            }],
            processes: vec![Process {
                session_id: "host".into(),
                pid: PID,
                t_ns: t_ns.clone(),
                anonymous: (0..120).map(level).collect(),
                shared: vec![0; 120],
                ended_ns,
                ..Process::default()
            }],
            ..Run::default()
        };
        for (ended_ns, count) in [(None, 0), (Some(40_000_000_000), 1)] {
            let run = run(ended_ns);
            let found = check(&run, &HostEvidence::of(&run));
            assert_eq!(found.findings().len(), count, "{ended_ns:?}");
        }
    }

    #[test]
    fn keys_that_may_end_need_a_longer_time() {
        let with_ids = of_holder("dict", Some(Retention::Kept), true);
        assert_eq!(severity(60, DONE, with_ids), Severity::Warning);
        let without = of_holder("dict", Some(Retention::Kept), false);
        assert_eq!(severity(60, DONE, without.clone()), Severity::Info);
        assert_eq!(
            severity(60, End::StillRunning, without.clone()),
            Severity::Info
        );
        assert_eq!(severity(900, DONE, without), Severity::Warning);
    }

    #[test]
    fn imports_are_no_part_of_the_growth() {
        let mut series = Series::default();
        for tick in 0..450 {
            let t = f64::from(tick) / 10.0;
            // Imports take 30 MiB in the first 2 s, then 4 MiB/s leak.
            let imported = 15.0 * t.min(2.0);
            series.push(
                t,
                (20.0 + imported + 4.0 * (t - 2.0).max(0.0)) * 1_048_576.0,
            );
        }
        let found = line(&series).unwrap();
        assert!((1.0..3.0).contains(&found.onset), "{found:?}");
        let mib = found.grown / 1_048_576.0;
        assert!((164.0..178.0).contains(&mib), "{mib}");
    }

    #[test]
    fn what_is_unknown_is_judged_by_the_end() {
        let unknown = of_holder("list", None, false);
        assert_eq!(severity(60, DONE, unknown.clone()), Severity::Info);
        assert_eq!(severity(60, End::StillRunning, unknown), Severity::Warning);
        // Memory that was reserved before is filled; mappings did not grow.
        let reserved = HostInspection {
            mapped_ms: Some(4000),
            mapped_bytes: Some(0),
            anonymous_bytes: Some(40 * MIB),
            ..HostInspection::default()
        };
        assert_eq!(severity(60, End::StillRunning, reserved), Severity::Info);
    }
}
