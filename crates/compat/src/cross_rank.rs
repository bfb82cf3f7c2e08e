//! Compares the ranks of one run and finds the rank whose memory rose first, with the rules of
//! stormlog 0.3.9.

mod first_cause;

use std::collections::BTreeMap;

use crate::phases::{PhaseAttribution, PhaseOrigin, PhaseReplay};
use hashbrown::HashMap;
use stormlog_analysis::{EventRef, Events, Origin, RowId};
use stormlog_format::{EventType, Text};

pub use first_cause::{Confidence, FirstCause, Suspect};

/// A sample, reduced to the fields that the comparison of ranks needs.
#[derive(Clone, Copy, Debug)]
struct Sample {
    timestamp_ns: i64,
    used: Option<i64>,
    id: RowId,
}

/// The samples of one rank in order of time.
#[derive(Debug, Default)]
struct RankSamples {
    samples: Vec<Sample>,
}

/// A sample of one rank, with its time on the common time line of all ranks
/// (`aligned_timestamp_ns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct TimelinePoint {
    pub rank: i64,
    pub timestamp_ns: i64,
    pub aligned_timestamp_ns: i64,
    pub device_used_bytes: Option<i64>,
    pub allocator_reserved_bytes: Option<i64>,
    pub allocator_allocated_bytes: Option<i64>,
    pub allocator_change_bytes: Option<i64>,
}

/// The samples of all ranks of a run on a common time line, on which the first samples of all ranks
/// have the same time.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct CrossRank {
    pub job_id: Option<Text>,
    pub world_size: i64,
    pub missing_ranks: Vec<i64>,
    pub alignment_offsets_ns: BTreeMap<i64, i64>,
    pub notes: Vec<String>,
    ranks: BTreeMap<i64, RankSamples>,
    median_interval_ns: i64,
    events: Events,
}

/// If the first samples of a rank and of the lowest rank are more than this many sampling intervals
/// apart, a note is added to the result.
const SKEW_INTERVALS: i64 = 5;

/// Only ranks below this number are listed as missing, because a record with a larger world size is
/// not plausible.
const MOST_MISSING_RANKS: i64 = 1 << 20;

const NO_SAMPLES: &str = "No sample telemetry events were available for distributed analysis.";

/// Puts the samples of all ranks in the given events on a common time line.
pub fn merge(events: &Events) -> CrossRank {
    let mut cross = CrossRank {
        job_id: None,
        world_size: 0,
        missing_ranks: Vec::new(),
        alignment_offsets_ns: BTreeMap::new(),
        notes: Vec::new(),
        ranks: BTreeMap::new(),
        median_interval_ns: 0,
        events: events.clone(),
    };
    if events.is_empty() {
        cross
            .notes
            .push("No telemetry events were provided.".into());
        return cross;
    }
    let census = Census::of(events);
    if census.samples < events.len() {
        let note = "Ignored non-sample events during cross-rank analysis.";
        cross.notes.push(note.into());
    }
    if census.samples == 0 {
        cross.notes.push(NO_SAMPLES.into());
        return cross;
    }
    let jobs = census.jobs();
    cross.job_id = jobs.most().cloned();
    let filter = (jobs.0.len() > 1).then(|| cross.job_id.clone()).flatten();
    if filter.is_some() {
        let note = "Multiple job_id values were observed; filtering to the most common value.";
        cross.notes.push(note.into());
    }
    let grouped = Grouped::of(events, census, filter.as_ref());
    let highest = grouped.ranks.keys().next_back().copied().unwrap_or(0);
    cross.world_size = grouped.world_size.max(highest.saturating_add(1));
    let all = 0..cross.world_size.min(MOST_MISSING_RANKS);
    cross.missing_ranks = all
        .filter(|rank| !grouped.ranks.contains_key(rank))
        .collect();
    cross.median_interval_ns = grouped.median_interval_ns();
    cross.ranks = grouped.ranks;
    if !cross.missing_ranks.is_empty() {
        let ranks = listed(&cross.missing_ranks);
        let note = format!("Missing rank data for ranks: {ranks}.");
        cross.notes.push(note);
    }
    cross.align();
    cross
}

impl CrossRank {
    /// The ranks with samples, in ascending order, each with its number of samples.
    pub fn rank_sample_counts(&self) -> impl Iterator<Item = (i64, usize)> {
        self.ranks
            .iter()
            .map(|(rank, of_rank)| (*rank, of_rank.samples.len()))
    }

    /// Every sample on the common time line, sorted by aligned time, rank and original time.
    pub fn points(&self) -> Vec<TimelinePoint> {
        let mut points = Vec::with_capacity(self.ranks.values().map(|r| r.samples.len()).sum());
        for (rank, of_rank) in &self.ranks {
            let offset = self.offset(*rank);
            let events = of_rank.samples.iter();
            let events = events.map(|sample| self.events.event(sample.id));
            points.extend(events.map(|event| TimelinePoint {
                rank: *rank,
                timestamp_ns: event.timestamp_ns(),
                aligned_timestamp_ns: event.timestamp_ns().saturating_sub(offset),
                device_used_bytes: event.used_bytes(),
                allocator_reserved_bytes: event.reserved_bytes(),
                allocator_allocated_bytes: event.allocated_bytes(),
                allocator_change_bytes: event.change_bytes(),
            }));
        }
        points.sort_by_key(|p| (p.aligned_timestamp_ns, p.rank, p.timestamp_ns));
        points
    }

    fn offset(&self, rank: i64) -> i64 {
        self.alignment_offsets_ns.get(&rank).copied().unwrap_or(0)
    }

    /// Shifts every rank so that its first sample coincides with that of the lowest rank, and adds a
    /// note about each rank that is shifted far.
    fn align(&mut self) {
        let first = |of_rank: &RankSamples| of_rank.samples.first().map(|s| s.timestamp_ns);
        // The ranks are sorted, so the lowest rank is the anchor to which the others are aligned.
        let Some(anchor) = self.ranks.values().next().and_then(first) else {
            return;
        };
        let limit = self.median_interval_ns.saturating_mul(SKEW_INTERVALS);
        for (rank, of_rank) in &self.ranks {
            let Some(start) = first(of_rank) else {
                continue;
            };
            let offset = start.saturating_sub(anchor);
            self.alignment_offsets_ns.insert(*rank, offset);
            if self.median_interval_ns > 0 && offset.saturating_abs() > limit {
                self.notes.push(format!(
                    "Rank {rank} starts {offset} ns from the anchor; first-sample alignment may be \
                     approximate."
                ));
            }
        }
    }
}

/// Returns the phase of the program at a time (nanoseconds since the epoch), in a session and on a
/// rank.
pub type ResolvePhase<'a> = dyn Fn(i64, &Text, i64) -> Option<PhaseAttribution> + 'a;

/// The function that finds phases in `replay`. The search is not restricted to one thread or one
/// phase, because only the metadata of an event could name them, and no event is given.
pub(crate) fn resolver(
    replay: &PhaseReplay,
) -> impl Fn(i64, &Text, i64) -> Option<PhaseAttribution> {
    |at_ns, session_id, rank| replay.resolve(at_ns, session_id, Some(rank), &PhaseOrigin::default())
}

/// The numbers as a text for messages, such as `0, 2, 5`.
fn listed(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    texts.join(", ")
}

/// Whether an event type is a sample, as this analysis of stormlog 0.3.9 decides: case is ignored,
/// but surrounding white space is not.
fn is_sample(event_type: &[u8]) -> bool {
    event_type.eq_ignore_ascii_case(EventType::Sample.as_str().as_bytes())
}

/// The samples by origin (session, process, rank and device), with the origins in the order of
/// their first sample.
struct Census<'a> {
    samples: usize,
    origins: Vec<(&'a Origin, Vec<Sample>)>,
}

impl<'a> Census<'a> {
    fn of(events: &'a Events) -> Self {
        let census = Self::taken(events, events.of_type_in_memory(is_sample));
        let mut origins = census.origins.iter();
        let first = origins.next().map(|(origin, _)| origin);
        let same = first.is_none_or(|first| {
            origins.all(|(origin, _)| {
                (&origin.job_id, origin.world_size) == (&first.job_id, first.world_size)
            })
        });
        if same {
            return census;
        }
        // The most frequent job id and the most frequent world size are used. Of equally frequent
        // job ids or world sizes, the first in order of time is used, so the events are read again
        // in order of time.
        let in_order = events.of_type(is_sample);
        let in_order =
            in_order.map(|(index, event, origin)| (events.row_ids()[index], event, origin));
        Self::taken(events, in_order)
    }

    fn taken(events: &Events, all: impl Iterator<Item = (RowId, EventRef<'a>, usize)>) -> Self {
        let count = events.origin_count();
        // The lists get room for a typical number of samples, so that they need no reallocation if
        // origins have similar numbers of samples.
        let typical = events.len() / count.max(1) + 1;
        let mut index_by_origin: Vec<Option<usize>> = vec![None; count];
        let mut origins: Vec<(&'a Origin, Vec<Sample>)> = Vec::new();
        let mut samples = 0;
        for (id, event, origin) in all {
            samples += 1;
            let of_origin = *index_by_origin[origin].get_or_insert_with(|| {
                origins.push((event.origin(), Vec::with_capacity(typical)));
                origins.len() - 1
            });
            origins[of_origin].1.push(Sample {
                timestamp_ns: event.timestamp_ns(),
                used: event.used_bytes(),
                id,
            });
        }
        Self { samples, origins }
    }

    fn jobs(&self) -> Tally<&'a Text> {
        let named = self.origins.iter();
        Tally::of(named.filter_map(|(origin, of)| Some((origin.job_id.as_ref()?, of.len()))))
    }
}

/// Counts how often each value occurs; the values are in the order of their first occurrence.
struct Tally<T>(Vec<(T, usize)>);

impl<T: Copy + Eq + std::hash::Hash> Tally<T> {
    fn of(counted: impl Iterator<Item = (T, usize)>) -> Self {
        let mut indices: HashMap<T, usize> = HashMap::new();
        let mut tally: Vec<(T, usize)> = Vec::new();
        for (value, count) in counted {
            let index = *indices.entry(value).or_insert_with(|| {
                tally.push((value, 0));
                tally.len() - 1
            });
            tally[index].1 += count;
        }
        Self(tally)
    }

    /// The most frequent value; if several are equally frequent, the first of them.
    fn most(&self) -> Option<T> {
        let most = self
            .0
            .iter()
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        most.map(|(value, _)| *value)
    }
}

/// Samples by rank, with the world size and the sampling intervals that the samples declare.
struct Grouped {
    ranks: BTreeMap<i64, RankSamples>,
    world_size: i64,
    /// Sampling intervals declared by samples, each with the number of samples that declare it.
    declared_intervals_ns: Vec<(i64, usize)>,
}

impl Grouped {
    fn of(events: &Events, census: Census<'_>, job: Option<&Text>) -> Self {
        let mut origins = census.origins;
        origins.retain(|(origin, _)| job.is_none() || origin.job_id.as_ref() == job);
        let sizes = origins
            .iter()
            .map(|(origin, of)| (origin.world_size, of.len()));
        let world_size = Tally::of(sizes.filter(|(size, _)| *size > 1)).most();
        let declared = origins
            .iter()
            .filter(|(origin, _)| origin.sampling_interval_ms > 0);
        let declared_intervals_ns = declared
            .map(|(origin, of)| {
                (
                    origin.sampling_interval_ms.saturating_mul(1_000_000),
                    of.len(),
                )
            })
            .collect();
        let mut ranks: BTreeMap<i64, RankSamples> = BTreeMap::new();
        for (origin, samples) in origins {
            let of_rank = &mut ranks.entry(origin.rank).or_default().samples;
            if of_rank.is_empty() {
                *of_rank = samples;
            } else {
                of_rank.extend(samples);
            }
        }
        for of_rank in ranks.values_mut() {
            of_rank.sort(events);
        }
        Self {
            ranks,
            world_size: world_size.unwrap_or(1),
            declared_intervals_ns,
        }
    }

    /// The median time between samples of a rank, in nanoseconds. If all samples of each rank have
    /// the same time, the declared sampling interval is used.
    fn median_interval_ns(&self) -> i64 {
        let mut intervals: Vec<i64> = Vec::new();
        for of_rank in self.ranks.values() {
            let pairs = of_rank.samples.windows(2);
            let steps = pairs.map(|pair| pair[1].timestamp_ns.saturating_sub(pair[0].timestamp_ns));
            intervals.extend(steps.filter(|step| *step > 0));
        }
        if intervals.is_empty() {
            let declared = self.declared_intervals_ns.iter();
            intervals.extend(declared.flat_map(|(ns, count)| std::iter::repeat_n(*ns, *count)));
        }
        median(&mut intervals)
    }
}

impl RankSamples {
    /// Sorts the samples by time, then by process, then by host, then in their original order.
    fn sort(&mut self, events: &Events) {
        let strictly = self
            .samples
            .windows(2)
            .all(|p| p[0].timestamp_ns < p[1].timestamp_ns);
        if strictly {
            return;
        }
        let origin = |sample: &Sample| events.event(sample.id).origin();
        self.samples.sort_by(|a, b| {
            a.timestamp_ns.cmp(&b.timestamp_ns).then_with(|| {
                let key = |sample| (origin(sample).pid, &origin(sample).host, sample.id);
                key(a).cmp(&key(b))
            })
        });
    }
}

/// The median of the values, truncated to a whole number; zero for an empty list.
fn median(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable(middle);
    let upper = *upper;
    match below.iter().max() {
        Some(lower) if even => {
            let sum = i128::from(*lower) + i128::from(upper);
            i64::try_from(sum / 2).unwrap_or(upper)
        }
        _ => upper,
    }
}
