//! Selects the lines of a segment that thinning keeps.
//!
//! Thinning keeps all lines that are not samples. Of each track and time interval, thinning keeps
//! these samples: the first, the last, those with the lowest and highest
//! `allocator_allocated_bytes`, those with the lowest and highest `device_used_bytes`, and the one
//! with the highest `allocator_reserved_bytes`. Samples at the end of an optimizer step form tracks
//! of their own, one per optimizer. Thinning the kept lines again with a longer interval gives the
//! same lines as thinning all original lines with that interval.

use std::collections::HashMap;

use stormlog_format::scan::RawRecord;
use stormlog_format::{Event, EventType, Map, SampleNumber, Value, json, metadata_keys};

/// The types of events that count as samples, which thinning may remove.
const THINNED_TYPES: [EventType; 2] = [EventType::Sample, EventType::Step];

fn is_thinned(event_type: &[u8]) -> bool {
    THINNED_TYPES.iter().any(|thinned| thinned.is(event_type))
}

/// The largest number of tracks that are followed at once; of further tracks, all samples are kept.
const MOST_TRACKS: usize = 4096;

/// Decides for each line in a group of segments whether thinning keeps it.
#[derive(Debug, Default)]
pub(super) struct Selection {
    interval_ns: i64,
    lines: usize,
    /// One bit for each line, which is set if thinning keeps the line.
    survivors: Vec<u64>,
    tracks: HashMap<Track, Interval>,
    /// Session ids by number, so that the key of a track is a number and needs no allocation.
    sessions: Vec<Vec<u8>>,
    /// The time of the latest sample that was passed to `look` so far.
    latest_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Track {
    session: usize,
    rank: i64,
    device_id: i64,
    pid: i64,
    series: Series,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Series {
    /// The samples that are taken at the sampling interval.
    Timed,
    /// The samples that are taken at the end of a step of the given optimizer.
    Steps(Option<i64>),
}

/// The lines that are kept so far in one time interval of a track.
#[derive(Debug)]
struct Interval {
    number: i64,
    first: usize,
    last: usize,
    extremes: [Option<(i64, usize)>; 5],
}

impl Interval {
    fn new(number: i64, line: usize) -> Self {
        Self {
            number,
            first: line,
            last: line,
            extremes: [None; 5],
        }
    }

    /// Adds a sample to the time interval; of samples with equal values, the first is kept.
    fn add(&mut self, line: usize, values: [Option<i64>; 5]) {
        self.last = line;
        for (extreme, value) in self.extremes.iter_mut().zip(values) {
            if let Some(value) = value
                && extreme.is_none_or(|(most, _)| value > most)
            {
                *extreme = Some((value, line));
            }
        }
    }

    fn survivors(&self) -> impl Iterator<Item = usize> {
        let extremes = self.extremes.iter().flatten().map(|(_, line)| *line);
        [self.first, self.last].into_iter().chain(extremes)
    }
}

impl Selection {
    /// Makes a selection with time intervals of the given length; with a length of zero, every line
    /// is kept.
    pub(super) fn new(interval_ns: i64) -> Self {
        Self {
            interval_ns,
            ..Self::default()
        }
    }

    /// Decides about the next line; `sample` is `None` for a line that is not a sample, and such a
    /// line is kept.
    pub(super) fn look(&mut self, sample: Option<&Sample<'_>>) {
        let line = self.lines;
        self.lines += 1;
        if self.survivors.len() * 64 < self.lines {
            self.survivors.push(0);
        }
        match sample {
            Some(sample) if self.interval_ns > 0 => self.sample(line, sample),
            _ => self.keep(line),
        }
    }

    fn sample(&mut self, line: usize, sample: &Sample<'_>) {
        self.latest_ns = self.latest_ns.max(sample.timestamp_ns);
        let track = Track {
            session: self.session(sample.session_id),
            ..sample.track
        };
        let number = sample.timestamp_ns.div_euclid(self.interval_ns);
        if self.tracks.len() >= MOST_TRACKS && !self.tracks.contains_key(&track) {
            return self.keep(line);
        }
        let interval = self
            .tracks
            .entry(track)
            .or_insert_with(|| Interval::new(number, line));
        let mut finished = None;
        if interval.number != number {
            finished = Some(std::mem::replace(interval, Interval::new(number, line)));
        }
        let [allocated, used, reserved] = sample.values;
        let negated = |value: Option<i64>| value.map(i64::saturating_neg);
        let values = [allocated, negated(allocated), used, negated(used), reserved];
        interval.add(line, values);
        for survivor in finished.iter().flat_map(Interval::survivors) {
            self.keep(survivor);
        }
    }

    fn session(&mut self, id: &[u8]) -> usize {
        let known = self.sessions.iter().position(|known| known == id);
        known.unwrap_or_else(|| {
            self.sessions.push(id.to_vec());
            self.sessions.len() - 1
        })
    }

    fn keep(&mut self, line: usize) {
        if let Some(bits) = self.survivors.get_mut(line / 64) {
            *bits |= 1 << (line % 64);
        }
    }

    /// Ends the last time interval of every track and returns which lines are kept.
    pub(super) fn finish(mut self) -> Selected {
        let tracks = std::mem::take(&mut self.tracks);
        for survivor in tracks.values().flat_map(Interval::survivors) {
            self.keep(survivor);
        }
        let kept: u64 = self
            .survivors
            .iter()
            .map(|bits| u64::from(bits.count_ones()))
            .sum();
        Selected {
            lines: self.lines,
            dropped: self.lines as u64 - kept,
            survivors: self.survivors,
            latest_ns: self.latest_ns,
        }
    }
}

/// Which lines of a group of segments thinning keeps.
#[derive(Debug)]
pub(super) struct Selected {
    lines: usize,
    survivors: Vec<u64>,
    /// How many lines thinning removes.
    pub(super) dropped: u64,
    /// The time of the latest sample among all lines, kept or not, in nanoseconds since the epoch.
    pub(super) latest_ns: i64,
}

impl Selected {
    /// Whether thinning keeps a line; lines that were added after the selection are kept.
    pub(super) fn survives(&self, line: usize) -> bool {
        line >= self.lines || self.survivors[line / 64] & (1 << (line % 64)) != 0
    }
}

/// What thinning needs to know about a sample to decide whether its line is kept.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    session_id: &'a [u8],
    timestamp_ns: i64,
    /// The rank, device and process of the sample, and whether it is a regular sample or one at the
    /// end of a step; the number of the session is not set yet.
    track: Track,
    /// The sample's allocated, used and reserved bytes.
    values: [Option<i64>; 3],
}

impl<'a> Sample<'a> {
    /// The sample in a scanned record; `None` when the record is not a sample that thinning may
    /// remove.
    pub(super) fn of_record(record: &RawRecord<'a>) -> Option<Self> {
        let mentions = |key: &str| memchr::memmem::find(record.metadata, key.as_bytes()).is_some();
        let series = if EventType::Sample.is(record.event_type)
            && !mentions("\"severity\"")
            && !mentions("\"step\"")
        {
            Series::Timed
        } else if is_thinned(record.event_type) {
            Series::of(
                record.event_type,
                json::parse(record.metadata).ok()?.as_map()?,
            )?
        } else {
            return None;
        };
        let origin = &record.origin;
        let [allocated, reserved, _, _, _, used, _, _] = record.counters;
        Some(Self {
            session_id: origin.session_id,
            timestamp_ns: record.timestamp_ns,
            track: Track {
                session: 0,
                rank: origin.rank,
                device_id: origin.device_id,
                pid: origin.pid,
                series,
            },
            values: [allocated, used, reserved],
        })
    }

    /// The sample in a parsed event; `None` when the event is not a sample that thinning may
    /// remove.
    pub(super) fn of_event(event: &'a Event) -> Option<Self> {
        let counters = &event.counters;
        Some(Self {
            session_id: event.session_id.as_bytes(),
            timestamp_ns: event.timestamp_ns,
            track: Track {
                session: 0,
                rank: event.rank,
                device_id: event.device_id,
                pid: event.pid,
                series: Series::of(event.event_type.as_bytes(), &event.metadata)?,
            },
            values: [
                counters.allocator_allocated_bytes,
                counters.device_used_bytes,
                counters.allocator_reserved_bytes,
            ],
        })
    }
}

impl Series {
    /// The kind of track that an event belongs to; `None` when the event must be kept. A sample
    /// with a severity is an alert, which is kept.
    fn of(event_type: &[u8], metadata: &Map) -> Option<Self> {
        if !is_thinned(event_type) || metadata.contains(metadata_keys::SEVERITY) {
            return None;
        }
        let is_step = EventType::Step.is(event_type)
            || metadata
                .get(SampleNumber::Step.key())
                .is_some_and(|step| *step != Value::Null);
        if !is_step {
            return Some(Self::Timed);
        }
        let optimizer = metadata.int(SampleNumber::Optimizer.key());
        Some(Self::Steps(optimizer))
    }
}

#[cfg(test)]
mod tests {
    use stormlog_format::{Counters, Version};

    use super::*;

    fn event(time_ns: i64, allocated: i64) -> Event {
        Event {
            version: Version::V3,
            session_id: "s".into(),
            timestamp_ns: time_ns,
            event_type: "sample".into(),
            collector: "c".into(),
            sampling_interval_ms: 100,
            pid: 1,
            host: "h".into(),
            job_id: None,
            rank: 0,
            local_rank: 0,
            world_size: 1,
            device_id: 0,
            counters: Counters {
                allocator_allocated_bytes: Some(allocated),
                allocator_reserved_bytes: Some(100),
                allocator_change_bytes: Some(0),
                device_used_bytes: Some(100),
                ..Counters::default()
            },
            context: None,
            metadata: Map::new(),
        }
    }

    fn step(time_ns: i64, allocated: i64, optimizer: i64) -> Event {
        let mut event = event(time_ns, allocated);
        event.metadata.insert("step", time_ns);
        event.metadata.insert("optimizer", optimizer);
        event
    }

    fn survivors(events: &[Event], interval_ns: i64) -> Vec<usize> {
        let mut selection = Selection::new(interval_ns);
        for event in events {
            selection.look(Sample::of_event(event).as_ref());
        }
        let selected = selection.finish();
        (0..events.len())
            .filter(|line| selected.survives(*line))
            .collect()
    }

    #[test]
    fn an_interval_keeps_its_ends_and_extremes() {
        let levels = [5, 6, 9, 7, 2, 4, 5, 5];
        let events: Vec<Event> = levels
            .iter()
            .zip(0..)
            .map(|(level, time)| event(time, *level))
            .collect();
        assert_eq!(survivors(&events, 8), [0, 2, 4, 7]);
        assert_eq!(survivors(&events, 4), [0, 2, 3, 4, 6, 7]);
        assert_eq!(survivors(&events, 0).len(), 8);
    }

    #[test]
    fn extremes_of_the_device_survive_too() {
        let mut events: Vec<Event> = (0..10).map(|time| event(time, 5)).collect();
        events[3].counters.device_used_bytes = Some(200);
        events[6].counters.device_used_bytes = Some(1);
        events[8].counters.allocator_reserved_bytes = Some(500);
        assert_eq!(survivors(&events, 100), [0, 3, 6, 8, 9]);
    }

    #[test]
    fn steps_are_series_of_their_own_per_optimizer() {
        let events = [
            event(0, 50),
            step(1, 10, 0),
            step(2, 11, 1),
            event(3, 55),
            step(4, 12, 0),
            step(5, 9, 1),
            event(6, 51),
            step(7, 11, 0),
            step(8, 10, 1),
            event(9, 50),
            step(10, 11, 0),
        ];
        assert_eq!(survivors(&events, 100), [0, 1, 2, 3, 4, 5, 8, 9, 10]);
    }

    #[test]
    fn tracks_do_not_mix_and_other_events_stay() {
        let mut events: Vec<Event> = (0..12).map(|time| event(time, 5)).collect();
        for (number, event) in events.iter_mut().enumerate() {
            event.device_id = i64::try_from(number % 2).unwrap();
        }
        events[4].event_type = "warning".into();
        events[5].metadata.insert("severity", "warning");
        events[6].event_type = "phase_enter".into();
        assert_eq!(survivors(&events, 100), [0, 1, 4, 5, 6, 10, 11]);
    }

    /// The test checks that thinning in several steps keeps the same lines as thinning once.
    #[test]
    fn levels_compose() {
        let mut state = 1_u64;
        let events: Vec<Event> = (0..3000)
            .map(|time| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let level = i64::try_from(state >> 54).unwrap();
                if level % 7 == 0 {
                    step(time, level, level % 2)
                } else {
                    event(time, level)
                }
            })
            .collect();
        let once = survivors(&events, 100);
        let first = survivors(&events, 10);
        let left: Vec<Event> = first.iter().map(|line| events[*line].clone()).collect();
        let second = survivors(&left, 100);
        let twice: Vec<usize> = second.iter().map(|line| first[*line]).collect();
        assert_eq!(once, twice);
        assert!(once.len() < first.len() && first.len() < events.len());
    }
}
