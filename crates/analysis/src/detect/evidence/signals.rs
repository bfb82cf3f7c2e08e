//! Converts a recorded track to the signals that detectors read: ordered by time, in seconds since
//! the first sample, with the warm-up and the device's size determined. Samples with unknown values
//! are left out, and never replaced by a number.

use super::floor::Floor;
use super::interruptions::Interruptions;
use super::series::Series;
use super::warm_up::WarmUp;
use super::{Channel, order};
use crate::stats::median;
#[cfg(test)]
use crate::timeline::Run;
use crate::timeline::{Column, CrowdedDevices, Track, float};
use rayon::prelude::*;

/// A track with at least this share of the longest track's length is assumed to cover the same run
/// with a later start.
const SAME_RUN_SHARE: f64 = 0.6;
/// When the device's size is unknown, it is estimated as this multiple of the highest memory use.
/// The factor assumes that jobs usually fill half to nine tenths of their device.
const TOTAL_PER_PEAK_USE: f64 = 1.6;

/// A recorded track in the form that detectors read: each memory counter as a series over time, and
/// values computed from them, such as floors and the end of the warm-up.
#[derive(Debug)]
pub(crate) struct Signals<'a> {
    pub(crate) track: &'a Track,
    /// Timestamp of the track's first sample; all times of the track in seconds count from it.
    pub(crate) start_ns: i64,
    /// Time of the last sample, in seconds since the first.
    pub(crate) end: f64,
    /// Length of the run in seconds. The run is longer than the track when the recorder attached
    /// after the run began.
    pub(crate) span: f64,
    /// Median time between two samples, in seconds.
    pub(crate) interval: f64,
    /// When allocated memory first came near its working level, which is the end of loading the
    /// model.
    pub(crate) train_start: f64,
    /// When the warm-up (model load and first steps) ends, in seconds. Findings begin only after
    /// the warm-up.
    pub(crate) warm_end: f64,
    /// Size of the device in bytes, when known.
    pub(crate) total: Option<f64>,
    /// Size of the device in bytes, or an estimate of it when unknown. Limits that are given as a
    /// share of the device are shares of this size.
    pub(crate) scale: f64,
    /// Bytes in live tensors over time.
    pub(crate) allocated: Series,
    /// `allocated` without the samples in interruptions; `None` when there are no interruptions.
    training: Option<Series>,
    /// Time spans in which the program was not training, such as evaluations.
    pub(crate) interruptions: Interruptions,
    /// Bytes reserved by the allocator at the times of `allocated`; NaN when unknown.
    pub(crate) reserved: Vec<f64>,
    /// The allocator's own peak counter (the highest allocated memory so far), where it was
    /// recorded.
    pub(crate) peak: Series,
    /// Whether `allocated` contains only samples at the ends of optimizer steps.
    pub(crate) is_stepped: bool,
    /// Number of optimizer steps so far, over time; empty if steps were not counted.
    pub(crate) step_count: Series,
    /// Hidden memory over time: bytes in use on the device outside the allocator.
    pub(crate) hidden: Series,
    /// Bytes that other processes held on the device at the end of the track; 0 when unknown.
    pub(crate) neighbours: f64,
    /// The floor of `allocated`: memory held between steps.
    pub(crate) allocated_floor: Floor,
    /// The floor of `hidden`: hidden memory without short rises.
    pub(crate) hidden_floor: Floor,
}

impl Signals<'_> {
    /// Number of optimizer steps from time `t` to the end of the track, when steps were counted.
    pub(crate) fn steps_since(&self, t: f64) -> Option<f64> {
        let counts = &self.step_count;
        let first = counts.y.get(counts.index_at(t))?;
        let steps = counts.y.last()? - first;
        (steps > 0.0).then_some(steps)
    }

    /// Converts seconds since the track's first sample to a timestamp in nanoseconds.
    pub(crate) fn ns(&self, seconds: f64) -> i64 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "float-to-int casts saturate"
        )]
        let offset = (seconds * 1e9).round() as i128;
        let at = i128::from(self.start_ns).saturating_add(offset);
        i64::try_from(at).unwrap_or(if at > 0 { i64::MAX } else { i64::MIN })
    }

    /// Converts a timestamp in nanoseconds to seconds since the track's first sample.
    pub(crate) fn seconds(&self, at_ns: i64) -> f64 {
        seconds_between(self.start_ns, at_ns)
    }

    /// The name of the innermost marked phase that contains the given time (seconds since the
    /// track's first sample); `None` outside of phases.
    pub(crate) fn phase_at(&self, seconds: f64) -> Option<String> {
        let at = self.ns(seconds);
        let inside = |p: &&crate::timeline::PhaseSpan| {
            p.start_ns <= at && p.end_ns.is_none_or(|end| at <= end)
        };
        self.track
            .phases
            .iter()
            .filter(inside)
            .max_by_key(|p| p.start_ns)
            .map(|p| p.name.clone())
    }

    /// The values of a channel (allocated or hidden memory) and their floor. Values of allocated
    /// memory in interruptions of the training are left out.
    pub(crate) fn channel(&self, channel: Channel) -> (&Series, &Floor) {
        match channel {
            Channel::Allocated => (
                self.training.as_ref().unwrap_or(&self.allocated),
                &self.allocated_floor,
            ),
            Channel::Hidden => (&self.hidden, &self.hidden_floor),
        }
    }

    /// The values of a channel (allocated or hidden memory), including those in interruptions of
    /// the training.
    pub(crate) fn recorded(&self, channel: Channel) -> &Series {
        match channel {
            Channel::Allocated => &self.allocated,
            Channel::Hidden => &self.hidden,
        }
    }

    /// Number of samples in which allocated memory is known, or in which hidden memory is known,
    /// whichever is larger.
    pub(crate) fn samples(&self) -> usize {
        self.allocated.len().max(self.hidden.len())
    }
}

/// Reads the signals of every track with samples, in the order of the tracks.
#[cfg(test)]
pub(crate) fn read(run: &Run) -> Vec<Signals<'_>> {
    read_tracks(&run.tracks.iter().collect::<Vec<_>>())
}

/// Reads the signals of the given tracks that have samples, in the given order.
pub(crate) fn read_tracks<'a>(tracks: &[&'a Track]) -> Vec<Signals<'a>> {
    let orders: Vec<Vec<usize>> = tracks.par_iter().map(|track| order::of(track)).collect();
    let length = |track: &Track, order: &[usize]| match (order.first(), order.last()) {
        (Some(&first), Some(&last)) => seconds_between(track.t_ns[first], track.t_ns[last]),
        _ => 0.0,
    };
    let longest = tracks
        .iter()
        .zip(&orders)
        .map(|(track, order)| length(track, order))
        .fold(0.0, f64::max);
    let crowded = CrowdedDevices::of(tracks.iter().copied());
    tracks
        .par_iter()
        .zip(&orders)
        .filter(|(_, order)| !order.is_empty())
        .map(|(track, order)| {
            let knows_hidden = crowded.knows_hidden(track);
            signals_of(track, order, longest, knows_hidden)
        })
        .collect()
}

/// Seconds from one timestamp to another, both in nanoseconds; negative if the second is earlier.
pub(crate) fn seconds_between(from_ns: i64, to_ns: i64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64 / 1e9
}

fn signals_of<'a>(
    track: &'a Track,
    order: &[usize],
    longest: f64,
    knows_hidden: bool,
) -> Signals<'a> {
    let start_ns = order.first().map_or(0, |&first| track.t_ns[first]);
    let optimizer = stepped_by(track);
    let (mut peak_counter, mut step_count) = (Series::default(), Series::default());
    let mut allocated = Series::default();
    let mut reserved = Vec::new();
    let mut hidden = Series::default();
    let is_shared = track.knows_own();
    let hidden_bytes = if knows_hidden {
        track.hidden()
    } else {
        Column::default()
    };
    let mut neighbours = 0.0;
    let (mut total, mut used_plus_free, mut peak) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut end = 0.0;
    for &i in order {
        let t = seconds_between(start_ns, track.t_ns[i]);
        end = t;
        let value = |column: &Column| column.get(i).map(float);
        let (used, held) = (value(&track.used), value(&track.reserved));
        if let Some(bytes) = value(&track.allocated) {
            if optimizer.is_none_or(|optimizer| track.ends_step(i, optimizer)) {
                allocated.push(t, bytes);
                reserved.push(held.unwrap_or(f64::NAN));
            }
            peak = peak.max(bytes);
        }
        if let Some(bytes) = value(&track.peak) {
            peak_counter.push(t, bytes);
        }
        if let Some(steps) = value(&track.step_count).or(value(&track.step)) {
            step_count.push(t, steps);
        }
        if let Some(bytes) = value(&hidden_bytes) {
            hidden.push(t, bytes);
        }
        if let Some(bytes) = track.others_at(i).filter(|_| is_shared) {
            neighbours = float(bytes);
        }
        peak = peak.max(used.unwrap_or(0.0)).max(held.unwrap_or(0.0));
        total = total.max(value(&track.total).unwrap_or(0.0));
        if let (Some(used), Some(free)) = (used, value(&track.free)) {
            used_plus_free = used_plus_free.max(used + free);
        }
    }
    let total = [total, used_plus_free]
        .into_iter()
        .find(|&bytes| bytes > 0.0);
    let scale = total.unwrap_or(peak * TOTAL_PER_PEAK_USE).max(1.0);
    let span = if end >= SAME_RUN_SHARE * longest {
        longest
    } else {
        end
    };
    let WarmUp {
        train_start,
        settle_start,
        warm_end,
    } = WarmUp::of(&allocated, end, span);
    let interval = typical_interval(if allocated.len() > 1 {
        &allocated.t
    } else {
        &hidden.t
    });
    let seconds = |ns: i64| seconds_between(start_ns, ns);
    let interruptions = Interruptions::of(&track.phases, end, interval, seconds);
    let training = (!interruptions.is_empty()).then(|| allocated.outside(&interruptions));
    let allocated_floor = Floor::of(training.as_ref().unwrap_or(&allocated), settle_start, scale);
    let hidden_floor = Floor::of(&hidden, settle_start, scale);
    Signals {
        track,
        start_ns,
        end,
        span,
        interval,
        train_start,
        warm_end,
        total,
        scale,
        allocated,
        training,
        interruptions,
        reserved,
        peak: peak_counter,
        is_stepped: optimizer.is_some(),
        step_count,
        hidden,
        neighbours,
        allocated_floor,
        hidden_floor,
    }
}

/// Minimum number of samples at step ends; a track with fewer is judged by all of its samples.
const MIN_STEP_SAMPLES: usize = 40;

/// The optimizer with the most samples at its step ends; `None` when too few samples were taken at
/// step ends. After the steps of different optimizers memory has different floors, so samples of
/// only one optimizer are used.
fn stepped_by(track: &Track) -> Option<i64> {
    let (optimizer, count) = track.busiest_optimizer()?;
    (count >= MIN_STEP_SAMPLES && covers_track(track)).then_some(optimizer)
}

/// Smallest share of a track that steps must span; otherwise the track is judged by all of its
/// samples. A program may train for a while and then serve requests without steps.
const MIN_STEPPED: f64 = 0.5;

fn covers_track(track: &Track) -> bool {
    let times = (0..track.step.len()).filter(|&i| track.step.get(i).is_some());
    let times = times.filter_map(|i| track.t_ns.get(i));
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for &at in times {
        (first, last) = (first.min(at), last.max(at));
    }
    track.span_ns().is_some_and(|(start, end)| {
        seconds_between(first, last) >= MIN_STEPPED * seconds_between(start, end)
    })
}

fn typical_interval(t: &[f64]) -> f64 {
    let gaps: Vec<f64> = t.windows(2).map(|w| w[1] - w[0]).collect();
    median(&gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::sketch::{a_rank, gib, run_of};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn used_and_free_make_a_total() {
        let mut run = run_of([a_rank(0)]);
        run.tracks[0].total = Column::default();
        assert_eq!(read(&run)[0].total, Some(85_899_345_920.0));
        run.tracks[0].free = Column::default();
        let guessed = &read(&run)[0];
        assert_eq!(guessed.total, None);
        assert!(guessed.scale > 30.0 * 1_073_741_824.0);
    }

    #[test]
    fn the_warm_up_is_the_first_quarter_of_the_run_not_of_the_record() {
        let run = run_of([a_rank(0), a_rank(1).attached_at(60)]);
        let signals = read(&run);
        assert!(
            (signals[0].warm_end - 99.75).abs() < 0.5,
            "{}",
            signals[0].warm_end
        );
        assert!(
            (signals[1].warm_end - 39.75).abs() < 0.5,
            "{}",
            signals[1].warm_end
        );
    }

    #[test]
    fn a_long_load_makes_a_long_warm_up() {
        let mut run = run_of([a_rank(0)]);
        let track = &mut run.tracks[0];
        let loading = |i: usize| {
            if i < 180 {
                Some(gib(1))
            } else {
                track.allocated.get(i)
            }
        };
        track.allocated = (0..400).map(loading).collect();
        let signals = read(&run);
        assert!(close(signals[0].train_start, 180.0) || signals[0].train_start > 180.0);
        assert!(signals[0].warm_end > 195.0, "{}", signals[0].warm_end);
    }

    #[test]
    fn of_samples_that_share_a_time_the_last_counts() {
        let track = Track {
            t_ns: vec![30, 10, 20, 10],
            allocated: [Some(3), Some(1), Some(2), Some(7)].into_iter().collect(),
            ..Track::default()
        };
        let run = Run {
            tracks: vec![track],
            ..Run::default()
        };
        assert_eq!(read(&run)[0].allocated.y, vec![7.0, 2.0, 3.0]);
    }

    #[test]
    fn extreme_timestamps_do_not_overflow() {
        let track = Track {
            t_ns: vec![i64::MIN, i64::MAX],
            allocated: [Some(i64::MAX), Some(i64::MIN + 1)].into_iter().collect(),
            ..Track::default()
        };
        let run = Run {
            tracks: vec![track],
            ..Run::default()
        };
        let signals = &read(&run)[0];
        assert_eq!(signals.ns(1e300), i64::MAX);
        assert!(signals.end > 1e10);
    }
}
