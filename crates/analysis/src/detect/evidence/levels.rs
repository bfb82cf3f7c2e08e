//! Summarizes the memory of a track in a few numbers, each with its standard deviation (scatter):
//! peaks, the steady level, its slope, and hidden memory, for the whole track and per marked phase.
//! The numbers serve to compare runs; this module does not decide what is wrong.

use std::collections::BTreeMap;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use stormlog_format::whole_count;

use super::floor::Floor;
use super::order;
use super::series::Series;
use super::signals::{self, Signals, seconds_between};
use super::warm_up::WarmUp;
use crate::detect::finding::{Finding, Kind};
use crate::stats::{bend_scatter, highest, median, quantile, robust_sigma, theil_sen};
use crate::timeline::{Column, Run, Step, Track, devices_or_all, float};

/// Minimum number of knots (points) of a floor, or of visits to a phase, needed to measure the
/// scatter of a level.
const MIN_KNOTS: usize = 6;
/// Minimum number of knots (points) of a floor, or of visits to a phase, needed for a slope.
const MIN_KNOTS_FOR_SLOPE: usize = 8;
/// Maximum number of parts that a track is divided into to measure the scatter of its peaks.
const MOST_STRETCHES: usize = 32;
/// Minimum number of parts of a track needed to measure the scatter of its peaks.
const FEWEST_STRETCHES: usize = 4;
/// When a track has fewer parts than this, the scatter of the parts' peaks is half of their range;
/// otherwise it is computed from the distance of each peak to its neighbours.
const ENOUGH_FOR_BENDS: usize = 8;
/// The error of a slope is computed from the scatter of the level. A scatter below this many bytes
/// is replaced by this value: the standard deviation of rounding to 2 MiB, the size of the blocks
/// in which PyTorch's caching allocator reserves memory.
const BLOCK_SCATTER: f64 = 0.6 * 1_048_576.0;
/// Like [`BLOCK_SCATTER`], for memory in live tensors, which PyTorch rounds to 512 bytes.
const TENSOR_SCATTER: f64 = 0.3 * 512.0;
/// Like [`BLOCK_SCATTER`], for host memory: the heap grows in blocks of 128 KiB and more.
const PAGE_SCATTER: f64 = 0.3 * 131_072.0;
/// A sampled peak is certain when at least this many samples reach it.
const SEEN_OFTEN: usize = 3;
/// Minimum length of a part of the track in training steps, so that each part contains a peak.
const STEPS_IN_STRETCH: f64 = 1.5;
/// Maximum number of phases that are distinguished per track. A program with more phases generates
/// a name for every step, and such phases cannot be compared between runs.
pub const MOST_PHASES: usize = 100;

/// A number, with its standard deviation within the recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Measure {
    /// The value in bytes, bytes per second or bytes per step.
    pub value: f64,
    /// Standard deviation of the value in the value's unit; `None` when too little was recorded.
    #[schemars(range(min = 0.0))]
    pub noise: Option<f64>,
}

/// A number that summarizes the memory of a rank, such as its peak, and by which runs are compared.
/// Reports list the metrics in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Highest number of bytes that the process used on the device.
    PeakOwn,
    /// Highest number of bytes in use on the device, by all processes.
    PeakUsed,
    /// Highest number of bytes reserved by the allocator.
    PeakReserved,
    /// Highest number of bytes in live tensors, by the allocator's own peak counter, which also
    /// knows peaks between two samples.
    PeakCounted,
    /// Highest number of bytes in live tensors at a sample.
    PeakAllocated,
    /// Growth of the memory that live tensors hold between steps, in bytes per second.
    AllocatedSlope,
    /// Growth of the memory that is still allocated after each step, in bytes per step.
    LeakPerStep,
    /// Bytes in live tensors between training steps, as the median over time.
    SteadyAllocated,
    /// Bytes that the process uses on the device between training steps, as the median over time.
    SteadyOwn,
    /// Bytes in use on the device between training steps, by all processes, as the median over
    /// time.
    SteadyUsed,
    /// Growth of the memory that the process uses on the device between steps, in bytes per second.
    OwnSlope,
    /// Growth of the memory in use on the device between steps, by all processes, in bytes per
    /// second.
    UsedSlope,
    /// Hidden memory: bytes in use on the device outside the framework's allocator.
    Gap,
    /// Growth of hidden memory, in bytes per second.
    GapSlope,
    /// Bytes in live tensors at the ends of optimizer steps, as the median over all steps after the
    /// warm-up.
    StepFloor,
    /// Highest number of bytes in live tensors during a step, as the median over all steps.
    StepPeak,
    /// Highest number of bytes of host memory held by the rank's process and its children.
    HostPeak,
    /// Bytes of host memory held by the rank's process and its children, as the median over time.
    HostSteady,
    /// Growth of the host memory of the rank's process and its children, in bytes per second.
    HostSlope,
}

stormlog_format::names!(Metric {
    PeakOwn => "peak_own",
    PeakUsed => "peak_used",
    PeakReserved => "peak_reserved",
    PeakCounted => "peak_counted",
    PeakAllocated => "peak_allocated",
    AllocatedSlope => "allocated_slope",
    LeakPerStep => "leak_per_step",
    SteadyAllocated => "steady_allocated",
    SteadyOwn => "steady_own",
    SteadyUsed => "steady_used",
    OwnSlope => "own_slope",
    UsedSlope => "used_slope",
    Gap => "gap",
    GapSlope => "gap_slope",
    StepFloor => "step_floor",
    StepPeak => "step_peak",
    HostPeak => "host_peak",
    HostSteady => "host_steady",
    HostSlope => "host_slope",
});

impl Metric {
    /// Whether the metric is the highest value of the whole run, such as [`Self::PeakUsed`].
    #[must_use]
    pub fn is_peak(self) -> bool {
        matches!(
            self,
            Self::PeakOwn
                | Self::PeakUsed
                | Self::PeakReserved
                | Self::PeakCounted
                | Self::PeakAllocated
                | Self::HostPeak
        )
    }

    /// Whether the metric is about host memory, and not about the memory of a device.
    #[must_use]
    pub fn is_of_host(self) -> bool {
        matches!(self, Self::HostPeak | Self::HostSteady | Self::HostSlope)
    }

    /// Whether the metric includes the memory of other processes on the device.
    #[must_use]
    pub fn is_of_all_processes(self) -> bool {
        matches!(self, Self::PeakUsed | Self::SteadyUsed | Self::UsedSlope)
    }

    /// The unit in which values of the metric are given.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::LeakPerStep => Unit::BytesPerStep,
            metric if metric.is_slope() => Unit::BytesPerSecond,
            _ => Unit::Bytes,
        }
    }

    /// Whether the metric is in bytes per second. [`Self::LeakPerStep`] is in bytes per step, and
    /// all other metrics are in bytes.
    #[must_use]
    pub fn is_slope(self) -> bool {
        matches!(
            self,
            Self::AllocatedSlope
                | Self::OwnSlope
                | Self::UsedSlope
                | Self::GapSlope
                | Self::HostSlope
        )
    }
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Bytes per step.
    BytesPerStep,
}

stormlog_format::names!(Unit {
    Bytes => "bytes",
    BytesPerSecond => "bytes_per_s",
    BytesPerStep => "bytes_per_step",
});

/// The value of each metric of a track or phase, where known.
#[derive(Debug, Clone, Copy, Default, PartialEq, JsonSchema)]
#[schemars(with = "BTreeMap<Metric, Measure>")]
pub struct Levels([Option<Measure>; Metric::ALL.len()]);

impl Levels {
    /// The value of a metric with its noise; `None` when the metric is unknown.
    #[must_use]
    pub fn get(&self, metric: Metric) -> Option<Measure> {
        self.0[metric as usize]
    }

    /// Sets the value of a metric; `None` makes it unknown.
    pub fn set(&mut self, metric: Metric, measure: Option<Measure>) {
        self.0[metric as usize] = measure;
    }

    /// Sets the level and the slope of a quantity.
    fn set_trend(&mut self, (level, slope): (Metric, Metric), trend: LevelAndSlope) {
        self.set(level, trend.0);
        self.set(slope, trend.1);
    }
}

/// The metrics of the level and of the slope of each quantity.
const OF_ALLOCATED: (Metric, Metric) = (Metric::SteadyAllocated, Metric::AllocatedSlope);
const OF_OWN: (Metric, Metric) = (Metric::SteadyOwn, Metric::OwnSlope);
const OF_USED: (Metric, Metric) = (Metric::SteadyUsed, Metric::UsedSlope);
const OF_HIDDEN: (Metric, Metric) = (Metric::Gap, Metric::GapSlope);
const OF_HOST: (Metric, Metric) = (Metric::HostSteady, Metric::HostSlope);

/// The level of a quantity and its slope, where they are known.
type LevelAndSlope = (Option<Measure>, Option<Measure>);

/// Metrics whose value is unknown are left out of the JSON object.
impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metrics = Metric::ALL.into_iter().zip(self.0);
        serializer.collect_map(metrics.filter_map(|(metric, known)| Some((metric, known?))))
    }
}

/// The numbers of one phase of a track.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseLevels {
    /// The name of the phase.
    pub name: String,
    /// How often the phase was entered. Entries into the phase without a sample are not counted.
    pub visits: usize,
    /// Number of samples taken in the phase.
    pub samples: usize,
    /// The metrics of the phase.
    pub levels: Levels,
}

/// The numbers of one rank on one device.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RankProfile")]
pub struct TrackLevels {
    /// The rank.
    pub rank: u32,
    /// The device.
    pub device_id: i64,
    /// Number of samples.
    pub samples: usize,
    /// Recorded seconds.
    pub seconds: f64,
    /// The size of the device, when known.
    pub device_total_bytes: Option<i64>,
    /// The metrics of the whole track.
    pub levels: Levels,
    /// The metrics of the phases, sorted by name.
    pub phases: Vec<PhaseLevels>,
    /// Number of phases left out because the track has more than [`MOST_PHASES`]. The phases with
    /// the fewest samples are left out first.
    #[serde(skip)]
    pub phases_left_out: usize,
}

/// The levels of every device track with samples, or of the host tracks when the run has no device
/// tracks. `findings` are the findings about the run: memory that grows by a finding has the slope
/// that it has since the growth began.
#[must_use]
pub fn levels_of(run: &Run, findings: &[&Finding]) -> Vec<TrackLevels> {
    let tracks = devices_or_all(run.tracks.iter().collect());
    let mut levels: Vec<TrackLevels> = signals::read_tracks(&tracks)
        .par_iter()
        .map(|signals| of_track(signals, findings))
        .collect();
    add_host(run, findings, &mut levels);
    levels
}

/// When growth of a kind began on a track, in seconds since its first sample; `None` when no finding
/// reports such growth. A growing track is one whose floor rises from then on; its slope before that
/// time is another one, and would hide the growth in the scatter.
fn onset(track: &Track, start_ns: i64, findings: &[&Finding], kinds: &[Kind]) -> Option<f64> {
    let is_of_resource = |one: &Finding| {
        let is_host = one.kind == Kind::HostLeak || one.device_id < 0;
        is_host == track.is_host()
            && (is_host || one.rank.is_none() || one.device_id == track.device_id)
    };
    let is_of_rank = |one: &Finding| match one.rank {
        None => true,
        Some(rank) => rank == track.rank && one.session_id == track.session_id,
    };
    let is_of_track = |one: &&&Finding| is_of_resource(one) && is_of_rank(one);
    let of_kind = findings.iter().filter(|one| kinds.contains(&one.kind));
    let onsets = of_kind.filter(is_of_track).filter_map(|one| one.onset_ns);
    onsets.min().map(|at| seconds_between(start_ns, at))
}

/// Sets the metrics of the host memory of each rank. Of a rank with several devices, only the first
/// device gets them.
fn add_host(run: &Run, findings: &[&Finding], levels: &mut [TrackLevels]) {
    let mut by_rank: BTreeMap<u32, Levels> = BTreeMap::new();
    let hosts = run.tracks.iter().filter(|track| track.is_host());
    for track in hosts.filter(|track| !run.is_start_up_only(track)) {
        let Some(value) = track.peaks().allocated.map(float) else {
            continue;
        };
        let order = order::of(track);
        let start_ns = order.first().map_or(0, |&first| track.t_ns[first]);
        let known = series(track, &track.allocated, &order, start_ns);
        let settled = &known.y[known.len() / 4..];
        let mut host = Levels::default();
        let noise = peak_scatter(settled, 1.0).map(|noise| noise.max(missed(&known.y)));
        host.set(Metric::HostPeak, Some(Measure { value, noise }));
        let began = onset(track, start_ns, findings, &[Kind::HostLeak]);
        let end = known.t.last().copied().unwrap_or(0.0);
        let from = WarmUp::of(&known, end, end).warm_end;
        let scale = track.limit_bytes().map_or(value, float);
        let floor = Floor::of(&known, began.map_or(from, |began| began.min(from)), scale);
        host.set_trend(OF_HOST, settled_since(&floor, from, began, PAGE_SCATTER));
        let highest = by_rank.entry(track.rank).or_insert(host);
        let peak = |levels: &Levels| levels.get(Metric::HostPeak).map_or(0.0, |peak| peak.value);
        if peak(&host) > peak(highest) {
            *highest = host;
        }
    }
    for one in levels {
        let host = by_rank.remove(&one.rank).unwrap_or_default();
        for metric in Metric::ALL.into_iter().filter(|it| it.is_of_host()) {
            one.levels.set(metric, host.get(metric));
        }
    }
}

fn of_track(signals: &Signals, findings: &[&Finding]) -> TrackLevels {
    let track = signals.track;
    let order = order::of(track);
    let of = |column: &Column| series(track, column, &order, signals.start_ns);
    let (used, reserved) = (of(&track.used), of(&track.reserved));
    let from = signals.warm_end;
    let mut levels = Levels::default();
    let period = signals.allocated_floor.period;
    // The detectors read only one of several samples with the same timestamp; here all of them
    // count.
    let peak = |column: &Column, counted: &Series| {
        let value = column.max().map(float)?;
        let settled = &counted.y[counted.index_at(from)..];
        let settled = if settled.len() < 2 * FEWEST_STRETCHES {
            &counted.y
        } else {
            settled
        };
        let noise = peak_scatter(settled, period);
        Some(Measure { value, noise })
    };
    let allocated = peak(&track.allocated, &signals.allocated);
    let sampled = allocated.map(|peak| Measure {
        noise: peak
            .noise
            .map(|noise| noise.max(missed(&of(&track.allocated).y))),
        ..peak
    });
    levels.set(Metric::PeakAllocated, sampled);
    let of_counter = track.peak.max().map(float).zip(allocated);
    let exact = of_counter.map(|(highest, sampled)| Measure {
        value: highest.max(sampled.value),
        ..sampled
    });
    levels.set(Metric::PeakCounted, exact);
    levels.set(Metric::PeakReserved, peak(&track.reserved, &reserved));
    let began = |kind| onset(track, signals.start_ns, findings, &[kind]);
    let drifts = began(Kind::HiddenDrift);
    // The counters of a host track are those of host memory.
    let (leaks, least) = if track.is_host() {
        let leaks = began(Kind::AllocatorLeak).or(began(Kind::HostLeak));
        (leaks, PAGE_SCATTER)
    } else {
        (began(Kind::AllocatorLeak), TENSOR_SCATTER)
    };
    let trend = settled_since(&signals.allocated_floor, from, leaks, least);
    levels.set_trend(OF_ALLOCATED, trend);
    let trend = settled_since(&signals.hidden_floor, from, drifts, BLOCK_SCATTER);
    levels.set_trend(OF_HIDDEN, trend);
    // On a device that other recorded processes use, the memory in use says nothing about this
    // process, of which the allocator's counters are known.
    let is_crowded = signals.hidden.len() == 0 && track.reserved.known() > 0;
    if !is_crowded || track.knows_own() {
        levels.set(Metric::PeakUsed, peak(&track.used, &used));
        let floor = Floor::of(&used, from, signals.scale);
        levels.set_trend(OF_USED, settled_since(&floor, from, None, BLOCK_SCATTER));
    }
    if track.knows_own() {
        let own = of(&track.own);
        levels.set(Metric::PeakOwn, peak(&track.own, &own));
        let floor = Floor::of(&own, from, signals.scale);
        levels.set_trend(OF_OWN, settled_since(&floor, from, None, BLOCK_SCATTER));
    }
    let steps = track.steps();
    let since = |from: f64| {
        let first = steps.partition_point(|step| signals.seconds(step.at_ns) < from);
        per_step(&steps[first..])
    };
    let (x, floors, peaks) = since(from);
    let (floor, mut leak) = level_and_slope(&x, &floors, 0.0, TENSOR_SCATTER);
    if let Some(began) = leaks {
        let (x, floors, _) = since(began);
        leak = level_and_slope(&x, &floors, 0.0, TENSOR_SCATTER).1.or(leak);
    }
    levels.set(Metric::StepFloor, floor);
    levels.set(Metric::LeakPerStep, leak);
    let (peak, _) = level_and_slope(&x, &peaks, 0.0, TENSOR_SCATTER);
    levels.set(Metric::StepPeak, peak);
    let (phases, phases_left_out) = phases(track, &order, signals);
    TrackLevels {
        rank: track.rank,
        device_id: track.device_id,
        samples: track.t_ns.len(),
        seconds: signals.end,
        device_total_bytes: signals.total.map(crate::detect::finding::draft::whole),
        levels,
        phases,
        phases_left_out,
    }
}

/// The standard deviation of a sampled peak because samples miss what lies between them. A level
/// that fewer than [`SEEN_OFTEN`] samples reach is one that the samples of another run may miss.
fn missed(y: &[f64]) -> f64 {
    let mut highest = [f64::NEG_INFINITY; SEEN_OFTEN];
    for &value in y {
        if value > highest[SEEN_OFTEN - 1] {
            highest[SEEN_OFTEN - 1] = value;
            highest.sort_by(|a, b| b.total_cmp(a));
        }
    }
    let gap = highest[0] - highest[SEEN_OFTEN - 1];
    if gap.is_finite() { gap / 2.0 } else { 0.0 }
}

/// The step numbers, memory floors and memory peaks of the steps, as three columns.
fn per_step(steps: &[Step]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let column = |read: fn(&Step) -> i64| steps.iter().map(|step| float(read(step))).collect();
    (
        column(|step| step.number),
        column(|step| step.floor),
        column(|step| step.peak),
    )
}

fn series(track: &Track, column: &Column, order: &[usize], start_ns: i64) -> Series {
    let known = order.iter().filter_map(|&i| {
        let t = seconds_between(start_ns, track.t_ns[i]);
        Some((t, float(column.get(i)?)))
    });
    known.collect()
}

/// The level of a floor after time `from` and its slope, with their scatter. The slope of memory
/// that grows is measured from the time when the growth began.
fn settled_since(floor: &Floor, from: f64, began: Option<f64>, least: f64) -> LevelAndSlope {
    let of = |from: f64| {
        let knots = &floor.knots[floor.knots.partition_point(|knot| knot.t < from)..];
        let t: Vec<f64> = knots.iter().map(|knot| knot.t).collect();
        let y: Vec<f64> = knots.iter().map(|knot| knot.level).collect();
        level_and_slope(&t, &y, floor.noise, least)
    };
    let (level, slope) = of(from);
    let since = began.and_then(|began| of(began).1);
    (level, since.or(slope))
}

/// The level and the slope of points over time, with a scatter of at least `noise`. The error of the
/// slope is computed from a scatter of at least `least`.
fn level_and_slope(t: &[f64], y: &[f64], noise: f64, least: f64) -> LevelAndSlope {
    if y.is_empty() {
        return (None, None);
    }
    let value = median(y);
    if y.len() < MIN_KNOTS {
        return (Some(Measure { value, noise: None }), None);
    }
    let slope = theil_sen(t, y);
    let middle = median(t);
    let rest: Vec<f64> = t
        .iter()
        .zip(y)
        .map(|(t, y)| y - slope * (t - middle))
        .collect();
    // The largest of three estimates of the scatter is used: the given `noise`, the median
    // deviation and the mean deviation. `noise` compares neighbouring points and misses a drift.
    // The median deviation misses a jump of fewer than half of the points.
    let noise = noise.max(robust_sigma(&rest)).max(mean_deviation(&rest));
    let level = Measure {
        value,
        noise: Some(noise),
    };
    let span = t[t.len() - 1] - t[0];
    if y.len() < MIN_KNOTS_FOR_SLOPE || span <= 0.0 {
        return (Some(level), None);
    }
    // The standard error of the slope of a line through evenly spaced, independent points.
    // Neighbouring points on the same side of the line are not independent, so each group of such
    // points counts once. A jump, or growth that ends, produces few long groups and so a large
    // error.
    let noise = noise.max(least) * (12.0 / stretches_of(&rest)).sqrt() / span;
    (
        Some(level),
        Some(Measure {
            value: slope,
            noise: Some(noise),
        }),
    )
}

/// Standard deviation of values with normal noise, estimated from their mean absolute deviation.
/// Unlike the median absolute deviation, the mean reflects changes of fewer than half of the
/// values.
fn mean_deviation(values: &[f64]) -> f64 {
    let centre = median(values);
    let sum: f64 = values.iter().map(|value| (value - centre).abs()).sum();
    1.2533 * sum / values.len() as f64
}

/// Number of groups of neighbouring values that lie on the same side of the median.
fn stretches_of(values: &[f64]) -> f64 {
    let centre = median(values);
    let sides: Vec<bool> = values.iter().map(|value| *value > centre).collect();
    let changes = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
    (changes + 1) as f64
}

/// Divides a track into parts and measures the scatter of their highest values. The trend is
/// removed when there are enough parts ([`ENOUGH_FOR_BENDS`]).
fn peak_scatter(y: &[f64], period: f64) -> Option<f64> {
    if y.len() < 2 * FEWEST_STRETCHES {
        return None;
    }
    let steps = whole_count((STEPS_IN_STRETCH * period).ceil());
    let length = y.len().div_ceil(MOST_STRETCHES).max(steps).max(2);
    let length = length.min(y.len() / FEWEST_STRETCHES);
    // A shorter part at the end is left out, because it may contain no peak.
    let stretches = y.chunks_exact(length);
    scatter(&stretches.map(highest).collect::<Vec<_>>())
}

fn scatter(values: &[f64]) -> Option<f64> {
    match values.len() {
        0..FEWEST_STRETCHES => None,
        FEWEST_STRETCHES..ENOUGH_FOR_BENDS => {
            Some((quantile(values, 1.0) - quantile(values, 0.0)) / 2.0)
        }
        _ => Some(bend_scatter(values)),
    }
}

/// For each time that a phase was entered, the range of its samples, as indices in the order of
/// time.
type Visits = Vec<std::ops::Range<usize>>;

fn phases(track: &Track, order: &[usize], signals: &Signals) -> (Vec<PhaseLevels>, usize) {
    let at = |ns: i64| order.partition_point(|&i| track.t_ns[i] < ns);
    let mut by_name: BTreeMap<&str, Visits> = BTreeMap::new();
    for span in &track.phases {
        let end = span
            .end_ns
            .map_or(order.len(), |end| at(end.saturating_add(1)));
        let visit = at(span.start_ns)..end;
        if !visit.is_empty() {
            by_name.entry(&span.name).or_default().push(visit);
        }
    }
    let mut all: Vec<(&str, Visits, usize)> = by_name
        .into_iter()
        .map(|(name, visits)| {
            let samples = visits.iter().map(ExactSizeIterator::len).sum();
            (name, visits, samples)
        })
        .collect();
    let left_out = all.len().saturating_sub(MOST_PHASES);
    if left_out > 0 {
        all.sort_by_key(|(_, _, samples)| std::cmp::Reverse(*samples));
        all.truncate(MOST_PHASES);
        all.sort_by_key(|(name, _, _)| *name);
    }
    let phases = all.into_iter().map(|(name, visits, samples)| PhaseLevels {
        name: name.to_owned(),
        visits: visits.len(),
        samples,
        levels: of_phase(track, order, signals, &visits),
    });
    (phases.collect(), left_out)
}

/// The metrics of a phase. Each visit to the phase gives one value, and the noise is the scatter of
/// these values. When a phase has few visits, each part of a visit gives one value.
fn of_phase(track: &Track, order: &[usize], signals: &Signals, visits: &Visits) -> Levels {
    let cut: Visits;
    let by_visit = visits.len() >= MIN_KNOTS;
    let blocks = if by_visit {
        visits
    } else {
        cut = visits.iter().flat_map(in_stretches).collect();
        &cut
    };
    let values = |column: &Column, block: &std::ops::Range<usize>| -> Vec<f64> {
        let indices = order[block.clone()].iter();
        indices.filter_map(|&i| column.get(i)).map(float).collect()
    };
    let unknown = Column::default();
    let knows_hidden = signals.hidden.len() > 0;
    let is_crowded = !knows_hidden && track.reserved.known() > 0;
    let own = if track.knows_own() {
        &track.own
    } else {
        &unknown
    };
    let used = if is_crowded && own.is_empty() {
        &unknown
    } else {
        &track.used
    };
    let mut levels = Levels::default();
    let columns = [
        (&track.allocated, Metric::PeakAllocated),
        (&track.reserved, Metric::PeakReserved),
        (used, Metric::PeakUsed),
        (own, Metric::PeakOwn),
    ];
    for (column, metric) in columns {
        let known = blocks.iter().map(|block| values(column, block));
        let known = known.filter(|y| !y.is_empty());
        let tops: Vec<f64> = known.map(|y| highest(&y)).collect();
        let peak = (!tops.is_empty()).then(|| Measure {
            value: highest(&tops),
            noise: scatter(&tops),
        });
        levels.set(metric, peak);
    }
    let trend = |column: &Column, least: f64| {
        let (mut t, mut y) = (Vec::new(), Vec::new());
        for block in blocks {
            let known = values(column, block);
            if !known.is_empty() {
                t.push(signals.seconds(track.t_ns[order[block.start]]));
                y.push(median(&known));
            }
        }
        let (level, slope) = level_and_slope(&t, &y, scatter(&y).unwrap_or(0.0), least);
        // The slope is kept only when it was measured between visits, because memory changes within
        // a visit are not a trend of the phase.
        (level, slope.filter(|_| by_visit))
    };
    // On a device shared with other processes, hidden memory is unknown when the memory of this
    // process is unknown.
    let hidden = if knows_hidden {
        track.hidden()
    } else {
        Column::default()
    };
    levels.set_trend(OF_ALLOCATED, trend(&track.allocated, TENSOR_SCATTER));
    levels.set_trend(OF_USED, trend(used, BLOCK_SCATTER));
    levels.set_trend(OF_OWN, trend(own, BLOCK_SCATTER));
    levels.set_trend(OF_HIDDEN, trend(&hidden, BLOCK_SCATTER));
    levels
}

/// Divides a visit to a phase into parts, so that the scatter of a single long visit can be
/// measured too.
fn in_stretches(visit: &std::ops::Range<usize>) -> Visits {
    let length = visit.len().div_ceil(ENOUGH_FOR_BENDS).max(2);
    visit
        .clone()
        .step_by(length)
        .map(|start| start..(start + length).min(visit.end))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::sketch::{SECOND_NS, START_NS, a_rank, gib, mib, run_of};
    use crate::timeline::PhaseSpan;

    fn levels(run: &Run) -> TrackLevels {
        levels_of(run, &[]).remove(0)
    }

    fn of(track: &TrackLevels, metric: Metric) -> Measure {
        track.levels.get(metric).unwrap()
    }

    #[test]
    fn steps_have_a_floor_a_peak_and_a_leak() {
        let mut run = run_of([a_rank(0)]);
        let track = &mut run.tracks[0];
        let count = i64::try_from(track.t_ns.len()).expect("a count");
        track.allocated = (0..count).map(|i| Some(gib(20) + i * mib(1))).collect();
        track.step = (0..count).map(|i| (i % 2 == 0).then_some(i / 2)).collect();
        let mut host = track.clone();
        (host.device_id, host.step) = (-1, Column::default());
        run.tracks.push(host);
        let levels = levels(&run).levels;
        let leak = levels.get(Metric::LeakPerStep).expect("a leak").value;
        assert!((leak / float(mib(2)) - 1.0).abs() < 0.01, "{leak}");
        let value = |metric| levels.get(metric).expect("known").value;
        assert!(value(Metric::StepFloor) > float(gib(20)));
        assert!(value(Metric::StepPeak) >= value(Metric::StepFloor));
        let host_peak = float(gib(20) + (count - 1) * mib(1));
        assert!((value(Metric::HostPeak) - host_peak).abs() < 1.0);
    }

    #[test]
    fn a_plain_run_is_level() {
        let track = levels(&run_of([a_rank(0)]));
        let gib = float(gib(1));
        let steady = of(&track, Metric::SteadyAllocated);
        assert!((steady.value / gib - 20.0).abs() < 0.3, "{steady:?}");
        assert!(steady.noise.unwrap() < 0.3 * gib, "{steady:?}");
        let peak = of(&track, Metric::PeakAllocated);
        assert!((peak.value / gib - 30.0).abs() < 0.6, "{peak:?}");
        assert!(peak.noise.unwrap() < 0.6 * gib, "{peak:?}");
        let slope = of(&track, Metric::AllocatedSlope);
        assert!(
            slope.value.abs() < 3.0 * slope.noise.unwrap() + 1.0,
            "{slope:?}"
        );
    }

    #[test]
    fn growth_is_in_the_slope() {
        let track = levels(&run_of([a_rank(0).grows(mib(8), 0)]));
        let slope = of(&track, Metric::AllocatedSlope);
        let per_second = slope.value / float(mib(1));
        assert!((per_second - 8.0).abs() < 0.5, "{per_second}");
        assert!(slope.value > 10.0 * slope.noise.unwrap(), "{slope:?}");
        // Steady growth of the memory does not add to the scatter of the peak.
        let peak = of(&track, Metric::PeakAllocated);
        assert!(peak.noise.unwrap() < float(gib(1)), "{peak:?}");
    }

    #[test]
    fn a_step_is_no_slope() {
        for run in [
            run_of([a_rank(0).jumps(gib(1), 250)]),
            run_of([a_rank(0).jumps(gib(1), 180)]),
        ] {
            let slope = of(&levels(&run), Metric::AllocatedSlope);
            assert!(slope.value < 3.0 * slope.noise.unwrap(), "{slope:?}");
        }
    }

    #[test]
    fn growth_is_measured_from_where_it_began() {
        // A leak that starts late in the run is hidden in the scatter of the slope of the whole run.
        let mut run = run_of([a_rank(0).grows(mib(8), 220)]);
        let findings = crate::detect::diagnose(&run, &crate::detect::Options::default());
        let findings: Vec<Finding> = findings.findings().into_iter().cloned().collect();
        let findings: Vec<&Finding> = findings.iter().collect();
        assert!(findings.iter().any(|one| one.kind == Kind::AllocatorLeak));
        let slope = |findings: &[&Finding]| {
            let track = levels_of(&run, findings).remove(0);
            of(&track, Metric::AllocatedSlope).value / float(mib(1))
        };
        let (whole, growth) = (slope(&[]), slope(&findings));
        assert!(
            (growth - 8.0).abs() < 1.0 && whole < 6.0,
            "{growth} {whole}"
        );
        // The allocator's own counter knows peaks between two samples.
        let count = run.tracks[0].t_ns.len();
        run.tracks[0].peak = vec![Some(gib(50)); count].into_iter().collect();
        let counted = of(&levels(&run), Metric::PeakCounted).value;
        assert!((counted - float(gib(50))).abs() < 1.0);
    }

    #[test]
    fn a_peak_that_few_samples_saw_is_uncertain() {
        let level = |tops: usize| {
            let mut y = vec![1.0; 50];
            y[..tops].fill(9.0);
            missed(&y)
        };
        assert!(level(1) > 3.9 && level(2) > 3.9);
        assert!(level(3) < 0.1 && missed(&[]) < 0.1);
    }

    #[test]
    fn a_few_samples_have_no_noise_and_no_slope() {
        let track = levels(&run_of([a_rank(0).samples(5)]));
        assert_eq!(of(&track, Metric::PeakAllocated).noise, None);
        assert_eq!(track.levels.get(Metric::AllocatedSlope), None);
    }

    #[test]
    fn unknown_counters_have_no_level() {
        let mut run = run_of([a_rank(0)]);
        run.tracks[0].used = Column::default();
        let track = levels(&run);
        assert_eq!(track.levels.get(Metric::PeakUsed), None);
        assert_eq!(track.levels.get(Metric::Gap), None);
        assert!(track.levels.get(Metric::PeakAllocated).is_some());
    }

    #[test]
    fn phases_are_measured_by_their_visits() {
        let mut run = run_of([a_rank(0)]);
        run.tracks[0].phases = (0..10)
            .map(|visit| PhaseSpan {
                name: "evaluation".into(),
                start_ns: START_NS + (visit * 40) * SECOND_NS,
                end_ns: Some(START_NS + (visit * 40 + 9) * SECOND_NS),
                ..PhaseSpan::default()
            })
            .collect();
        let track = levels(&run);
        let phase = &track.phases[0];
        assert_eq!(phase.visits, 10);
        assert!((80..=100).contains(&phase.samples), "{}", phase.samples);
        let peak = phase.levels.get(Metric::PeakAllocated).unwrap();
        assert!(peak.noise.is_some());
        assert!(phase.levels.get(Metric::AllocatedSlope).is_some());
    }

    #[test]
    fn made_up_names_do_not_pile_up() {
        let mut run = run_of([a_rank(0)]);
        run.tracks[0].phases = (0..300)
            .map(|step| PhaseSpan {
                name: format!("step {step}"),
                start_ns: START_NS + step * SECOND_NS,
                end_ns: Some(START_NS + (step + 2) * SECOND_NS),
                ..PhaseSpan::default()
            })
            .collect();
        let track = levels(&run);
        assert_eq!(
            (track.phases.len(), track.phases_left_out),
            (MOST_PHASES, 200)
        );
    }
}
