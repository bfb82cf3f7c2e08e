//! The evidence that all detectors share, computed once per run: the signals of each track and how
//! their floors change over time.

pub(crate) mod floor;
pub(crate) mod interruptions;
pub(crate) mod levels;
mod order;
pub(crate) mod peaks;
pub(crate) mod series;
pub(crate) mod signals;
mod warm_up;

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::finding::words;
use super::growth::jump::{self, Jump};
use super::growth::{self, Growth, Strength, certain, straight};
use crate::stats::median;
use crate::timeline::{End, RecordedBy, Resource, Run, TimeZero, Track};
use floor::Floor;
use series::Series;
use signals::Signals;

/// Minimum number of samples that a track needs to be judged. Of 48 samples, 36 come after the
/// warm-up, and about six of those lie on the floor (the memory held between steps). Fewer samples
/// on the floor would not show whether it grows.
pub(super) const MIN_SAMPLES: usize = 48;
/// When at least this share of the tracks grows or jumps, the weaker limits `growth::AMONG_PEERS`
/// and `jump::AMONG_PEERS` apply to the other tracks.
const PEERS_SHARE: f64 = 0.4;
/// A track is a peer of growing or jumping tracks when the size of its growth or jump differs from
/// their median by at most this factor.
const PEERS_FACTOR: f64 = 2.5;

/// Memory rises until the garbage collector runs, and then falls. A rise at the end of a track may
/// therefore be garbage that was not collected yet. To recognize garbage, the largest rise that was
/// freed again is measured on every track. Two such freed rises must be smaller than `MAX_GARBAGE`
/// times the rise at the end, otherwise the rise at the end is not reported. The first is the
/// largest freed rise of the same rank; it counts only if the rank has several tracks. The second
/// is the median of the freed rises of all tracks; it counts only if the run has more than
/// `MIN_OTHERS` ranks.
const MIN_OTHERS: usize = 3;
const MAX_GARBAGE: f64 = 0.5;

/// A memory counter of a track whose floor (the level between steps) is checked for growth and
/// jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Bytes in live tensors.
    Allocated,
    /// Hidden memory: bytes in use outside the allocator.
    Hidden,
}

/// How the floor of one channel changes over the run: whether it grows, and whether it jumps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    pub(super) growth: Option<Growth>,
    pub(super) jump: Option<Jump>,
}

impl Course {
    /// Bytes by which the growth and the jump together have raised the floor at time `t`, in
    /// seconds since the track's first sample.
    pub(super) fn lift(&self, t: f64) -> f64 {
        let grown = self.growth.map_or(0.0, |growth| growth.trend.lift(t));
        let jumped = self
            .jump
            .filter(|jump| t >= jump.raised)
            .map_or(0.0, |jump| jump.height);
        grown + jumped
    }
}

/// A track (the samples of one rank on one device) as detectors see it: with its signals, and with
/// the growth and jumps of its allocated and hidden memory.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) signals: Signals<'a>,
    /// The start of the run on the clock of the track, in nanoseconds. The sentences of findings give
    /// times as durations since this moment ([`Self::since`]).
    pub(super) origin_ns: i64,
    /// How the track's process ended.
    pub(super) end: End,
    pub(super) allocated: Course,
    pub(super) hidden: Course,
}

impl Subject<'_> {
    /// Whether the track has samples of host memory and not of a device.
    pub(super) fn is_host(&self) -> bool {
        self.signals.track.is_host()
    }

    /// The name of the track at the beginning of a sentence: `GPU 0`, `Rank 3 (GPU 1)`.
    pub(super) fn name(&self, has_ranks: bool) -> String {
        let track = self.signals.track;
        let resource = match track.resource() {
            Resource::Host => "process".to_owned(),
            Resource::Device(index) => format!("GPU {index}"),
        };
        match (has_ranks, track.resource()) {
            (true, _) => format!("Rank {} ({resource})", track.rank),
            (false, Resource::Host) => "The process".to_owned(),
            (false, Resource::Device(_)) => resource,
        }
    }

    /// A time of the track as text, counted from the start of the run: `13.2 s`.
    pub(super) fn since(&self, t: f64) -> String {
        let at_ns = self.signals.ns(t);
        words::moment(signals::seconds_between(self.origin_ns, at_ns))
    }

    /// The word for the memory that fills up, in sentences: `memory` or `device`.
    pub(super) fn medium(&self) -> &'static str {
        if self.is_host() { "memory" } else { "device" }
    }

    pub(super) fn course(&self, channel: Channel) -> &Course {
        match channel {
            Channel::Allocated => &self.allocated,
            Channel::Hidden => &self.hidden,
        }
    }
}

/// What the detectors read of a run: its tracks with their signals, growth and jumps.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) subjects: Vec<Subject<'a>>,
    /// Whether the run has more than one rank.
    pub(super) has_ranks: bool,
}

impl<'a> Evidence<'a> {
    /// Computes the evidence of a run in time linear in its samples.
    #[cfg(test)]
    pub(super) fn of(run: &'a Run) -> Self {
        let tracks = run.tracks.iter().filter(|track| !track.is_host_of_run());
        Self::of_tracks(run, &tracks.collect::<Vec<_>>())
    }

    /// Computes the evidence of the given tracks of a run, which are compared with one another.
    pub(super) fn of_tracks(run: &'a Run, tracks: &[&'a Track]) -> Self {
        let signals = signals::read_tracks(tracks);
        let ends = Ends::of(run);
        let zero = TimeZero::of(run);
        let allocated = courses(&signals, &ends, Channel::Allocated);
        let hidden = courses(&signals, &ends, Channel::Hidden);
        let subjects: Vec<Subject<'a>> = signals
            .into_iter()
            .zip(allocated.into_iter().zip(hidden))
            .map(|(signals, (allocated, hidden))| Subject {
                origin_ns: zero
                    .by_clock_of(signals.track.rank)
                    .unwrap_or(signals.start_ns),
                end: ends.end_of(signals.track),
                signals,
                allocated,
                hidden,
            })
            .collect();
        Self {
            subjects,
            has_ranks: run.has_several_ranks(),
        }
    }

    /// Whether all tracks have too few samples to be judged.
    pub(super) fn has_too_few_samples(&self) -> bool {
        self.subjects
            .iter()
            .all(|s| s.signals.samples() < MIN_SAMPLES)
    }
}

/// How each process ended. The map by rank and pid keeps lookups fast, because a run may have
/// thousands of ranks.
struct Ends {
    run: End,
    by_process: BTreeMap<(u32, i64), End>,
}

impl Ends {
    fn of(run: &Run) -> Self {
        Self {
            run: run.end(),
            by_process: run
                .ends
                .iter()
                .filter(|one| one.end != End::Unknown)
                .map(|one| ((one.rank, one.pid), one.end.clone()))
                .collect(),
        }
    }

    fn end_of(&self, track: &Track) -> End {
        let of_process = self.by_process.get(&(track.rank, track.pid));
        of_process.unwrap_or(&self.run).clone()
    }
}

/// Possible growth and jumps of a floor, before it is decided which of them are reported.
#[derive(Debug, Clone, Copy, Default)]
struct Candidates {
    growth: Option<Growth>,
    jump: Option<Jump>,
    /// Growth that remains when the jump is subtracted from the floor.
    growth_besides: Option<Growth>,
    /// Largest rise of the floor that was freed again later, in bytes.
    freed_rise: f64,
}

fn courses(signals: &[Signals], ends: &Ends, channel: Channel) -> Vec<Course> {
    let candidates: Vec<Candidates> = signals
        .par_iter()
        .map(|signals| candidates(signals, channel))
        .collect();
    let mut courses: Vec<Course> = candidates
        .iter()
        .map(|c| believable(c, signals.len()))
        .collect();
    let garbage = garbage(&candidates, signals);
    for (course, garbage) in courses.iter_mut().zip(&garbage) {
        course.growth = course.growth.filter(|g| g.grown > *garbage);
        course.jump = course.jump.filter(|j| j.height > *garbage);
    }
    join_growing_peers(&mut courses, &candidates);
    join_jumping_peers(&mut courses, &candidates);
    add_certain_growth(&mut courses, signals, ends, &garbage, channel);
    courses
}

/// Adds growth that is certain even though it is a small share of the device (see [`certain`]). On
/// a track with samples at step ends, certain growth also replaces the growth or jump that was
/// fitted to the floor. Growth that may come from loading a model or data is marked as weak, and
/// growth that is explained by growing batches is removed.
fn add_certain_growth(
    courses: &mut [Course],
    signals: &[Signals],
    ends: &Ends,
    garbage: &[f64],
    channel: Channel,
) {
    courses
        .par_iter_mut()
        .zip(signals)
        .zip(garbage)
        .filter(|((_, signals), _)| !signals.track.is_host())
        .for_each(|((course, signals), garbage)| {
            let is_stepped = channel == Channel::Allocated && signals.is_stepped;
            let end = ends.end_of(signals.track);
            if course.growth.is_none() && course.jump.is_none() || is_stepped {
                let certain = certain::find(signals, channel, &end);
                let certain = certain.filter(|g| g.grown > *garbage);
                if certain.is_some() {
                    *course = Course {
                        growth: certain,
                        jump: None,
                    };
                }
            }
            let by_run = signals.track.recorder == RecordedBy::Run || is_stepped;
            if channel == Channel::Allocated
                && by_run
                && let Some(growth) = &mut course.growth
            {
                let (onset, rate) = (growth.onset, growth.rate);
                if !is_stepped && certain::may_be_load(signals, onset, rate, &end) {
                    growth.strength = Strength::Weak;
                }
                if certain::is_of_batches(signals, onset, rate) {
                    course.growth = None;
                }
            }
            let (series, _) = signals.channel(channel);
            if let Some(growth) = &mut course.growth
                && let Some((began, grown)) =
                    straight::hidden_beginning(series, growth.onset, growth.rate)
            {
                growth.onset = began;
                growth.grown += grown;
            }
        });
}

fn candidates(signals: &Signals, channel: Channel) -> Candidates {
    let (series, floor): (&Series, &Floor) = signals.channel(channel);
    if series.len() < MIN_SAMPLES {
        return Candidates::default();
    }
    let growth = growth::find(series, floor, signals);
    let jump = jump::find(series, floor, signals)
        // With few samples, growth in stairs can look like a jump, so a jump is kept only if it
        // fits the floor better than growth does.
        .filter(|jump| growth.is_none_or(|g| jump.unexplained < g.leaves_unexplained(floor)));
    let growth_besides = jump.and_then(|jump| {
        let rest = jump::without(series, &jump);
        growth::find(&rest, &jump::floor_without(floor, &jump), signals)
    });
    Candidates {
        growth,
        jump,
        growth_besides,
        freed_rise: floor.tooth(signals.warm_end),
    }
}

/// Decides which growth and jump of one floor are reported, without looking at other tracks.
fn believable(candidates: &Candidates, tracks: usize) -> Course {
    let jump = candidates.jump.filter(|jump| jump.odds >= jump::ALONE);
    let growth = if jump.is_some() {
        candidates.growth_besides
    } else {
        candidates.growth
    };
    // A possible jump with log-odds too low to be reported must not be reported as growth either.
    let growth = growth.filter(|g| {
        g.meets_among(&growth::ALONE, tracks) && (jump.is_some() || candidates.jump.is_none())
    });
    Course { growth, jump }
}

/// For each track, the bytes of growth that may be uncollected garbage; growth smaller than that is
/// not reported. The bytes are estimated from rises that were freed again on the tracks of the same
/// rank and of all ranks, as described at `MAX_GARBAGE`.
fn garbage(candidates: &[Candidates], signals: &[Signals]) -> Vec<f64> {
    let mut sessions: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
    for (signals, candidates) in signals.iter().zip(candidates) {
        let (count, freed_rise) = sessions.entry(signals.track.rank).or_default();
        (*count, *freed_rise) = (*count + 1, freed_rise.max(candidates.freed_rise));
    }
    let usual = if sessions.len() > MIN_OTHERS {
        median(&candidates.iter().map(|c| c.freed_rise).collect::<Vec<_>>())
    } else {
        0.0
    };
    let of_track = |signals: &Signals| {
        let of_rank = match sessions.get(&signals.track.rank) {
            Some((2.., freed_rise)) => *freed_rise,
            _ => 0.0,
        };
        of_rank.max(usual) / MAX_GARBAGE
    };
    signals.iter().map(of_track).collect()
}

/// When many ranks grow, accepts similar growth of the other ranks on weaker evidence.
fn join_growing_peers(courses: &mut [Course], candidates: &[Candidates]) {
    let grown: Vec<f64> = courses
        .iter()
        .filter_map(|c| c.growth.map(|g| g.grown))
        .collect();
    if !have_peers(grown.len(), courses.len()) {
        return;
    }
    let typical = median(&grown);
    for (course, candidates) in courses.iter_mut().zip(candidates) {
        let alike = |g: &Growth| g.meets(&growth::AMONG_PEERS) && are_alike(g.grown, typical);
        if let (None, Some(growth)) = (course.growth, candidates.growth.filter(alike)) {
            *course = Course {
                growth: Some(growth),
                jump: None,
            };
        }
    }
}

/// When many ranks jump, accepts a similar jump of the other ranks on weaker evidence. Growth of a
/// size similar to the jumps is dropped, because it is a jump seen in too few samples.
fn join_jumping_peers(courses: &mut [Course], candidates: &[Candidates]) {
    let heights: Vec<f64> = courses
        .iter()
        .filter_map(|c| c.jump.map(|j| j.height))
        .collect();
    if !have_peers(heights.len(), courses.len()) {
        return;
    }
    let typical = median(&heights);
    for (course, candidates) in courses.iter_mut().zip(candidates) {
        course.growth = course
            .growth
            .filter(|g| course.jump.is_some() || !are_alike(g.grown, typical));
        let alike = |j: &Jump| j.odds >= jump::AMONG_PEERS && are_alike(j.height, typical);
        if let (None, None, Some(jump)) =
            (course.growth, course.jump, candidates.jump.filter(alike))
        {
            course.jump = Some(jump);
        }
    }
}

fn have_peers(affected: usize, all: usize) -> bool {
    affected >= 2 && affected < all && affected as f64 >= PEERS_SHARE * all as f64
}

fn are_alike(bytes: f64, typical: f64) -> bool {
    bytes >= typical / PEERS_FACTOR && bytes <= typical * PEERS_FACTOR
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{a_rank, gib, mib, run_of};
    use super::*;

    fn growing(run: &Run) -> Vec<u32> {
        let evidence = Evidence::of(run);
        let growing = |s: &&Subject| s.allocated.growth.is_some();
        let ranks = evidence.subjects.iter().filter(growing);
        ranks.map(|s| s.signals.track.rank).collect()
    }

    #[test]
    fn what_other_sessions_give_back_is_garbage() {
        let leaking = a_rank(0).grows(mib(8), 160);
        assert_eq!(growing(&run_of([leaking.clone()])), [0]);
        let restarted = run_of([a_rank(0).collects_garbage(gib(2), 130), leaking.clone()]);
        assert_eq!(growing(&restarted), [0; 0]);
        assert_eq!(growing(&run_of([a_rank(0), leaking])), [0]);
    }

    #[test]
    fn what_most_ranks_give_back_is_garbage() {
        let others = |of: fn(u32) -> super::super::tests::sketch::Sketch| {
            let mut all: Vec<_> = (1..6).map(of).collect();
            all.push(a_rank(0).grows(mib(8), 160));
            growing(&run_of(all))
        };
        assert_eq!(others(|r| a_rank(r).collects_garbage(gib(2), 130)), [0; 0]);
        assert_eq!(others(a_rank), [0]);
    }
}
