//! A rank's memory over time, in columns ready to be drawn.

use std::collections::{BTreeMap, BTreeSet};

use stormlog_analysis::{EventRef, LoadedSession, timeline};

use crate::label::clean;
use crate::scale::{Span, TimeScale};

/// Stands for a value that is not known; it is never drawn as zero.
pub const UNKNOWN: i64 = i64::MIN;

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Bytes in live tensors.
    Allocated,
    /// Bytes that the framework's allocator holds.
    Reserved,
    /// Bytes in use on the device, by anybody.
    Used,
    /// Bytes that the device has.
    Capacity,
    /// Used on the device but not held by the allocator; the process's own alone where its share
    /// of the device is known.
    Hidden,
    /// Used on the device by this process, where its share is known.
    Own,
    /// Used on the device by other processes and the driver, where this process's share is known.
    Others,
}

impl Measure {
    /// All measures, in the order of columns.
    pub const ALL: [Self; 7] = [
        Self::Allocated,
        Self::Reserved,
        Self::Used,
        Self::Capacity,
        Self::Hidden,
        Self::Own,
        Self::Others,
    ];

    /// The name in legends.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::Reserved => "reserved",
            Self::Used => "device used",
            Self::Capacity => "capacity",
            Self::Hidden => "hidden",
            Self::Own => "used by the process",
            Self::Others => "other processes",
        }
    }

    fn place(self) -> usize {
        match self {
            Self::Allocated => 0,
            Self::Reserved => 1,
            Self::Used => 2,
            Self::Capacity => 3,
            Self::Hidden => 4,
            Self::Own => 5,
            Self::Others => 6,
        }
    }
}

/// The samples of one rank and device of one session, in time order.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// The session that they belong to.
    pub session_id: String,
    /// Where they were taken.
    pub host: String,
    /// The job, where there is one.
    pub job_id: Option<String>,
    /// The rank.
    pub rank: i64,
    /// The device; -1 is the host's memory.
    pub device_id: i64,
    /// What to add to this rank's times to get the shared clock.
    pub skew_ns: i64,
    times: Vec<i64>,
    columns: [Vec<i64>; 7],
    /// What was going on at each sample, where the source says so.
    notes: Vec<String>,
    interval_ns: i64,
    gap_ns: i64,
    /// Whether host memory is the sum of its parts rather than the resident size.
    pub(crate) has_parts: bool,
}

impl Track {
    /// A track of samples given as (time, allocated, reserved), for sources that are no
    /// sessions. Notes say what went on at each sample, or are left empty.
    pub fn from_points(mut points: Vec<(i64, i64, i64, String)>) -> Self {
        points.sort_by_key(|point| point.0);
        let mut track = Self {
            device_id: 0,
            ..Self::default()
        };
        for (time, allocated, reserved, note) in points {
            track.push(time, [allocated, reserved, UNKNOWN, UNKNOWN]);
            track.notes.push(clean(&note));
        }
        // Taken when something ran, so nothing is missing between them.
        track.gap_ns = i64::MAX;
        track
    }

    fn push(&mut self, time: i64, values: [i64; 4]) {
        self.times.push(time);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
        let [_, reserved, used, _] = values;
        let known = reserved != UNKNOWN && used != UNKNOWN;
        self.columns[Measure::Hidden.place()].push(if known {
            used.saturating_sub(reserved)
        } else {
            UNKNOWN
        });
        self.columns[Measure::Own.place()].push(UNKNOWN);
        self.columns[Measure::Others.place()].push(UNKNOWN);
    }

    fn finish(&mut self) {
        if !self.times.is_sorted() {
            let mut order: Vec<usize> = (0..self.times.len()).collect();
            order.sort_by_key(|place| self.times[*place]);
            let sorted = |values: &[i64]| order.iter().map(|place| values[*place]).collect();
            self.times = sorted(&self.times);
            for column in &mut self.columns {
                *column = sorted(column);
            }
        }
        self.gap_ns = gap_threshold(&self.times, self.interval_ns);
    }

    /// When the samples were taken, on the rank's own clock.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The values of a measure, one for each time.
    pub fn values(&self, measure: Measure) -> &[i64] {
        &self.columns[measure.place()]
    }

    /// First and last time on the shared clock.
    pub fn first_and_last_ns(&self) -> Option<(i64, i64)> {
        self.span().map(|span| (span.from, span.to))
    }

    /// Least and greatest value of a measure in each of some equal stretches of the shared
    /// clock; nothing where no value is known.
    pub fn columns(
        &self,
        measure: Measure,
        (from_ns, to_ns): (i64, i64),
        count: usize,
    ) -> Vec<Option<(i64, i64)>> {
        let span = Span::new(from_ns, to_ns);
        let places = self.within(span);
        let own = TimeScale {
            span: Span::new(
                span.from.saturating_sub(self.skew_ns),
                span.to.saturating_sub(self.skew_ns),
            ),
            left: 0.0,
            width: count as f64,
        };
        let times = &self.times[places.clone()];
        crate::reduce::columns(times, &self.values(measure)[places], own, count)
    }

    /// The sample nearest to a moment of the shared clock: its place.
    pub fn nearest(&self, at_ns: i64) -> Option<usize> {
        let own = at_ns.saturating_sub(self.skew_ns);
        let after = self.times.partition_point(|time| *time < own);
        let away = |place: &usize| self.times[*place].saturating_sub(own).saturating_abs();
        let near = after.saturating_sub(1)..(after + 1).min(self.times.len());
        near.min_by_key(away)
    }

    /// What went on at a sample.
    pub(crate) fn note(&self, place: usize) -> Option<&str> {
        let note = self.notes.get(place)?;
        (!note.is_empty()).then_some(note)
    }

    /// Two samples further apart than this have a gap in the sampling between them.
    pub(crate) fn gap_ns(&self) -> i64 {
        self.gap_ns
    }

    /// The whole time of the track, on the shared clock.
    pub(crate) fn span(&self) -> Option<Span> {
        let (first, last) = (self.times.first()?, self.times.last()?);
        Some(Span::new(
            first.saturating_add(self.skew_ns),
            last.saturating_add(self.skew_ns),
        ))
    }

    /// Places of the samples inside a span of the shared clock.
    pub(crate) fn within(&self, span: Span) -> std::ops::Range<usize> {
        let from = span.from.saturating_sub(self.skew_ns);
        let to = span.to.saturating_sub(self.skew_ns);
        let start = self.times.partition_point(|time| *time < from);
        let end = self.times.partition_point(|time| *time <= to);
        start..end.max(start)
    }

    /// Least and most of a measure in some places, where any is known.
    pub(crate) fn extremes(
        &self,
        measure: Measure,
        places: std::ops::Range<usize>,
    ) -> Option<(i64, i64)> {
        let values = self.values(measure)[places].iter();
        let known = values.filter(|value| **value != UNKNOWN);
        known.fold(None, |extremes, &value| match extremes {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
    }

    /// Stretches without samples, on the shared clock.
    pub(crate) fn gaps(&self) -> Vec<Span> {
        let pairs = self.times.windows(2);
        let wide = pairs.filter(|pair| pair[1].saturating_sub(pair[0]) > self.gap_ns);
        wide.map(|pair| {
            Span::new(
                pair[0].saturating_add(self.skew_ns),
                pair[1].saturating_add(self.skew_ns),
            )
        })
        .collect()
    }

    /// Whether this process's share of the device is known.
    pub(crate) fn knows_own(&self) -> bool {
        let mut own = self.values(Measure::Own).iter();
        own.any(|value| *value != UNKNOWN)
    }

    /// Whether the track is of the host's memory rather than a device's.
    pub(crate) fn is_host(&self) -> bool {
        self.device_id < 0
    }
}

/// How far apart two samples must be to count as a gap: well beyond both the declared
/// interval and what is usual in this track, so that sampling on change shows no gaps.
fn gap_threshold(times: &[i64], interval_ns: i64) -> i64 {
    if times.len() < 3 {
        return i64::MAX;
    }
    let mut steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut quantile = |share: usize| {
        let place = (steps.len() - 1) * share / 100;
        *steps.select_nth_unstable(place).1
    };
    let (median, usual) = (quantile(50), quantile(95));
    let threshold = median
        .saturating_mul(8)
        .max(usual.saturating_mul(4))
        .max(interval_ns.saturating_mul(5));
    threshold.max(1)
}

/// The tracks of some sessions, one for each rank and device, in order of rank.
///
/// Samples are drawn; a session that has none is drawn from its other measurements.
///
/// Host memory of a rank that has a device is left out.
pub fn tracks_of(sessions: &[&LoadedSession]) -> Vec<Track> {
    let run = timeline::run_of(sessions);
    split_tracks(sessions, &run).0
}

/// The tracks of some sessions, and the host memory of those ranks that have a device.
pub(crate) fn split_tracks(
    sessions: &[&LoadedSession],
    run: &timeline::Run,
) -> (Vec<Track>, Vec<Track>) {
    let mut tracks = Vec::new();
    for session in sessions {
        let any_sample = session.events.iter().any(|event| is_sample(event));
        let mut by_place: BTreeMap<(i64, i64), Track> = BTreeMap::new();
        // Events of one origin mostly come in a row: look up the track only on a change.
        let mut current: Option<((i64, i64), *const stormlog_analysis::Origin)> = None;
        for event in session.events.iter() {
            if any_sample != is_sample(event) || !any_sample && !is_measurement(event) {
                continue;
            }
            let origin = event.origin();
            let place = match current {
                Some((place, seen)) if std::ptr::eq(seen, origin) => place,
                _ => (origin.rank, origin.device_id),
            };
            current = Some((place, std::ptr::from_ref(origin)));
            let track = by_place.entry(place).or_insert_with(|| Track {
                session_id: clean(&origin.session_id.to_str_lossy()),
                host: clean(&origin.host.to_str_lossy()),
                job_id: origin.job_id.as_ref().map(|job| clean(&job.to_str_lossy())),
                rank: origin.rank,
                device_id: origin.device_id,
                ..Track::default()
            });
            let interval = origin.sampling_interval_ms.saturating_mul(1_000_000);
            track.interval_ns = track.interval_ns.max(interval);
            let known = |value: Option<i64>| value.unwrap_or(UNKNOWN);
            track.push(
                event.timestamp_ns(),
                [
                    known(event.allocated_bytes()),
                    known(event.reserved_bytes()),
                    known(event.used_bytes()),
                    known(event.total_bytes()),
                ],
            );
        }
        tracks.extend(by_place.into_values());
    }
    hide_as_timeline(&mut tracks, run);
    for track in &mut tracks {
        track.finish();
    }
    tracks.sort_by_key(|track| (track.rank, track.device_id));
    let with_device: BTreeSet<i64> = tracks
        .iter()
        .filter(|track| !track.is_host() && !track.times.is_empty())
        .map(|track| track.rank)
        .collect();
    let is_beside = |track: &Track| track.is_host() && with_device.contains(&track.rank);
    let (mut hosts, main): (Vec<_>, Vec<_>) = tracks.into_iter().partition(is_beside);
    let with_parts: BTreeSet<String> = run
        .tracks
        .iter()
        .filter(|track| track.anonymous.known() > 0)
        .map(|track| clean(&track.session_id))
        .collect();
    for host in &mut hosts {
        host.has_parts = with_parts.contains(&host.session_id);
    }
    (main, hosts)
}

/// Gives tracks the hidden memory of the timeline, which is the process's own where its share of
/// the device is known.
fn hide_as_timeline(tracks: &mut [Track], run: &timeline::Run) {
    let key = |session: &str, rank: i64, device: i64| (clean(session), rank, device);
    let mut found: BTreeMap<_, [Vec<Option<i64>>; 2]> = run
        .tracks
        .iter()
        .filter(|track| !track.own.is_empty())
        .map(|track| {
            let of = key(&track.session_id, i64::from(track.rank), track.device_id);
            (of, [track.hidden_bytes(), track.other_processes_bytes()])
        })
        .collect();
    for track in tracks {
        let of = key(&track.session_id, track.rank, track.device_id);
        let Some([hidden, others]) = found.remove(&of) else {
            continue;
        };
        if hidden.len() != track.times.len() {
            continue;
        }
        let known = |value: Option<i64>| value.unwrap_or(UNKNOWN);
        for (place, (hidden, others)) in hidden.into_iter().zip(others).enumerate() {
            let reserved = track.columns[Measure::Reserved.place()][place];
            let own = hidden.filter(|_| others.is_some());
            track.columns[Measure::Hidden.place()][place] = known(hidden);
            track.columns[Measure::Others.place()][place] = known(others);
            track.columns[Measure::Own.place()][place] =
                known(own.map(|hidden| hidden.saturating_add(reserved)));
        }
    }
}

/// Puts tracks of several ranks on one clock, as the cross-rank analysis does: every rank's
/// first sample is taken to be the same moment as that of the anchor, which is rank 0 or
/// the lowest. Returns the largest correction, zero when there is but one rank.
pub(crate) fn align(tracks: &mut [Track]) -> i64 {
    let anchor = tracks.iter().filter(|track| !track.times.is_empty());
    let Some(start) = anchor
        .min_by_key(|track| track.rank)
        .map(|track| track.times[0])
    else {
        return 0;
    };
    let mut firsts: BTreeMap<i64, i64> = BTreeMap::new();
    for track in tracks.iter() {
        if let Some(first) = track.times.first() {
            let earliest = firsts.entry(track.rank).or_insert(*first);
            *earliest = (*earliest).min(*first);
        }
    }
    let mut largest = 0;
    for track in tracks {
        if let Some(first) = firsts.get(&track.rank) {
            track.skew_ns = start.saturating_sub(*first);
            largest = largest.max(track.skew_ns.saturating_abs());
        }
    }
    largest
}

fn is_sample(event: EventRef<'_>) -> bool {
    event
        .event_type()
        .trim_ascii()
        .eq_ignore_ascii_case(b"sample")
}

/// Whether an event that is no sample carries fresh counters: status events repeat old ones.
fn is_measurement(event: EventRef<'_>) -> bool {
    let kind = event.event_type();
    let repeats: [&[u8]; 6] = [
        b"start",
        b"stop",
        b"collector_degraded",
        b"collector_recovered",
        b"phase_enter",
        b"phase_exit",
    ];
    !repeats.contains(&kind)
}

/// A name for a track among others.
pub(crate) fn track_name(track: &Track, several_devices: bool) -> String {
    if several_devices {
        format!("rank {} device {}", track.rank, track.device_id)
    } else {
        format!("rank {}", track.rank)
    }
}
