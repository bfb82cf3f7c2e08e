//! The memory of a rank's device or host over time, stored for drawing: the times of the samples,
//! and a column of values for each measure.

use std::collections::BTreeSet;

use stormlog_analysis::timeline::{self, Column, CrowdedDevices, Peaks, Resource, Run, Step};

use crate::label::clean;
use crate::measure::{Measure, UNKNOWN};
use crate::phase::Phase;
use crate::reduce::{self, Columns};
use crate::scale::Span;

/// The samples of one resource (a device or host memory) of one rank of a session, in order of
/// time.
#[derive(Clone, Debug, Default)]
pub struct DrawnTrack {
    /// The id of the session (the recording) that contains the samples.
    pub session_id: String,
    /// The name of the machine on which the samples were taken.
    pub host: String,
    /// The id of the job, if the session belongs to one.
    pub job_id: Option<String>,
    /// The rank of the recorded process in its job.
    pub rank: i64,
    /// The index of the device; -1 means host memory.
    pub device_id: i64,
    /// Nanoseconds to add to the times of this rank to get times of the shared clock.
    pub skew_ns: i64,
    times: Vec<i64>,
    columns: [Vec<i64>; Measure::ALL.len()],
    /// For tracks made by [`Self::from_points`], a description of each point; otherwise empty.
    notes: Vec<String>,
    gap_ns: i64,
    /// The start and the end of each sampling gap, in nanoseconds on the clock of the track's rank.
    gaps: Vec<(i64, i64)>,
    /// The training steps at whose end a sample was taken, in order of time.
    steps: Vec<Step>,
    /// For each failed allocation, its time on the clock of the track's rank and the memory in use
    /// at that time.
    failures: Vec<(i64, Peaks)>,
    /// The pid of the recorded process.
    pub pid: i64,
    /// Whether the driver reports how much device memory the recorded process uses itself
    /// ([`Measure::Own`]).
    knows_own: bool,
    /// For a track of host memory: whether its values are the sum of anonymous and shared memory,
    /// and not the resident size.
    pub(crate) has_parts: bool,
}

impl DrawnTrack {
    /// The last recorded size of the device's memory, or limit of the host memory, in bytes.
    pub fn limit(&self) -> Option<i64> {
        let known = self.values(Measure::Capacity).iter().rev();
        known.copied().find(|value| *value != UNKNOWN)
    }

    /// Makes a track of points (time, allocated, reserved, note) for sources that are not sessions.
    /// The note of a point is its description and may be empty.
    pub fn from_points(mut points: Vec<(i64, i64, i64, String)>) -> Self {
        points.sort_by_key(|point| point.0);
        let mut track = Self::default();
        for (time, allocated, reserved, note) in points {
            track.times.push(time);
            for (column, measure) in track.columns.iter_mut().zip(Measure::ALL) {
                column.push(match measure {
                    Measure::Allocated => allocated,
                    Measure::Reserved => reserved,
                    _ => UNKNOWN,
                });
            }
            track.notes.push(clean(&note));
        }
        // The points are all events of an allocator's history, so no data is missing between two
        // points and no sampling gap is drawn.
        track.gap_ns = i64::MAX;
        track
    }

    /// A track of the same resource that contains only the given values of a measure. If they are
    /// sparse, such as those at the ends of steps, no sampling gaps are drawn between them.
    pub(crate) fn with_values(
        &self,
        measure: Measure,
        times: Vec<i64>,
        values: Vec<i64>,
        is_sparse: bool,
    ) -> Self {
        let mut columns: [Vec<i64>; Measure::ALL.len()] = Default::default();
        for column in &mut columns {
            *column = vec![UNKNOWN; times.len()];
        }
        columns[measure as usize] = values;
        Self {
            times,
            columns,
            notes: Vec::new(),
            gap_ns: if is_sparse { i64::MAX } else { self.gap_ns },
            gaps: if is_sparse {
                Vec::new()
            } else {
                self.gaps.clone()
            },
            steps: Vec::new(),
            failures: Vec::new(),
            session_id: self.session_id.clone(),
            host: self.host.clone(),
            job_id: self.job_id.clone(),
            rank: self.rank,
            device_id: self.device_id,
            skew_ns: self.skew_ns,
            pid: self.pid,
            knows_own: self.knows_own,
            has_parts: self.has_parts,
        }
    }

    /// Converts a track of the timeline for drawing; `skew_ns` is the offset of its clock to the
    /// shared clock. Hidden memory is drawn only if `knows_hidden` is true; it is false if several
    /// recorded processes use the device and the share of this process is unknown.
    fn of(track: &timeline::Track, skew_ns: i64, knows_hidden: bool) -> Self {
        let mut order: Vec<usize> = (0..track.t_ns.len()).collect();
        order.sort_by_key(|&sample| track.t_ns[sample]);
        let values = |column: Option<&Column>| -> Vec<i64> {
            let at = |&sample: &usize| column.and_then(|column| column.get(sample));
            let known = order.iter().map(at);
            known.map(|value| value.unwrap_or(UNKNOWN)).collect()
        };
        let is_device = track.resource() != Resource::Host;
        let knows_own = track.knows_own();
        let hidden = (is_device && knows_hidden).then(|| track.hidden());
        let others = || track.other_processes_bytes().into_iter().collect();
        let others: Option<Column> = is_device.then(others);
        let sampling = track.sampling();
        Self {
            session_id: clean(&track.session_id),
            host: clean(&track.host),
            job_id: track.job_id.as_deref().map(clean),
            rank: i64::from(track.rank),
            device_id: track.device_id,
            pid: track.pid,
            skew_ns,
            times: order.iter().map(|&sample| track.t_ns[sample]).collect(),
            columns: Measure::ALL.map(|measure| match measure {
                Measure::Allocated => values(Some(&track.allocated)),
                Measure::Reserved => values(Some(&track.reserved)),
                Measure::Used => values(Some(&track.used)),
                Measure::Capacity => values(Some(&track.total)),
                Measure::Hidden => values(hidden.as_ref()),
                Measure::Own => values(knows_own.then_some(&track.own)),
                Measure::Others => values(others.as_ref()),
            }),
            notes: Vec::new(),
            gap_ns: sampling.gap_ns,
            gaps: sampling.gaps,
            steps: track.steps(),
            failures: track
                .ooms
                .iter()
                .map(|oom| (oom.at_ns, oom.in_use()))
                .collect(),
            knows_own,
            has_parts: track.anonymous.known() > 0,
        }
    }

    /// The times of the samples in ascending order, in nanoseconds on the clock of the track's
    /// rank.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// The values of a measure in bytes, one for each time in [`Self::times`]; [`UNKNOWN`] where
    /// the value was not recorded.
    pub fn values(&self, measure: Measure) -> &[i64] {
        &self.columns[measure as usize]
    }

    /// The times of the first and the last sample, in nanoseconds on the shared clock of all ranks.
    pub fn first_and_last_ns(&self) -> Option<(i64, i64)> {
        self.span().map(|span| (span.from, span.to))
    }

    /// Divides a range of the shared clock into equal columns and returns the lowest and highest
    /// value of a measure in each; `None` where no value is known.
    pub fn columns(&self, measure: Measure, (from_ns, to_ns): (i64, i64), count: usize) -> Columns {
        let span = Span::new(from_ns, to_ns);
        let range = self.within(span);
        let times = self.times[range.clone()].iter().copied();
        let values = self.values(measure)[range].iter().copied();
        let known = times.zip(values).filter(|(_, value)| *value != UNKNOWN);
        let Span { from, to } = self.own_span(span);
        reduce::columns(known, (from, to), count)
    }

    /// The index of the sample nearest to a time on the shared clock of all ranks; `None` if there
    /// are no samples.
    pub fn nearest(&self, at_ns: i64) -> Option<usize> {
        let own_ns = at_ns.saturating_sub(self.skew_ns);
        let after = self.times.partition_point(|time| *time < own_ns);
        let distance = |index: &usize| self.times[*index].saturating_sub(own_ns).saturating_abs();
        let near = after.saturating_sub(1)..(after + 1).min(self.times.len());
        near.min_by_key(distance)
    }

    /// The description of the sample with this index, if it has one.
    pub(crate) fn note(&self, index: usize) -> Option<&str> {
        let note = self.notes.get(index)?;
        (!note.is_empty()).then_some(note)
    }

    /// The time between two samples is a sampling gap if it is longer than this number of
    /// nanoseconds.
    pub(crate) fn gap_ns(&self) -> i64 {
        self.gap_ns
    }

    /// The time span from the first to the last sample, on the shared clock.
    pub(crate) fn span(&self) -> Option<Span> {
        let (first, last) = (self.times.first()?, self.times.last()?);
        Some(Span::new(self.shared_ns(*first), self.shared_ns(*last)))
    }

    /// Converts a time from the clock of the track's rank to the shared clock.
    pub(crate) fn shared_ns(&self, own_ns: i64) -> i64 {
        own_ns.saturating_add(self.skew_ns)
    }

    /// Converts a time span from the shared clock to the clock of the track's rank.
    pub(crate) fn own_span(&self, span: Span) -> Span {
        let own_ns = |shared_ns: i64| shared_ns.saturating_sub(self.skew_ns);
        Span::new(own_ns(span.from), own_ns(span.to))
    }

    /// The range of indices of the samples inside a time span of the shared clock.
    pub(crate) fn within(&self, span: Span) -> std::ops::Range<usize> {
        let Span { from, to } = self.own_span(span);
        let start = self.times.partition_point(|time| *time < from);
        let end = self.times.partition_point(|time| *time <= to);
        start..end.max(start)
    }

    /// The lowest and highest known value of a measure in a range of indices.
    pub(crate) fn extremes(
        &self,
        measure: Measure,
        range: std::ops::Range<usize>,
    ) -> Option<(i64, i64)> {
        let values = self.values(measure)[range].iter();
        let known = values.filter(|value| **value != UNKNOWN);
        known.fold(None, |extremes, &value| match extremes {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
    }

    /// Whether a value of the measure was recorded at any time.
    pub(crate) fn knows(&self, measure: Measure) -> bool {
        self.values(measure).iter().any(|value| *value != UNKNOWN)
    }

    /// The highest sampled value of a measure in a phase of the track's rank.
    pub fn highest_in(&self, measure: Measure, phase: &Phase) -> Option<i64> {
        let (start, end) = (phase.start_ns, phase.end_ns);
        self.highest(
            measure,
            Span::new(self.shared_ns(start), self.shared_ns(end)),
        )
    }

    /// The highest sampled value of a measure in a time span of the shared clock.
    pub(crate) fn highest(&self, measure: Measure, span: Span) -> Option<i64> {
        let extremes = self.extremes(measure, self.within(span));
        extremes.map(|(_, high)| high)
    }

    /// The highest known value of a measure in a time span of the shared clock. The memory in use
    /// when an allocation failed counts too, even if no sample was taken at that time.
    pub(crate) fn peak(&self, measure: Measure, span: Span) -> Option<i64> {
        let failures = self.failures.iter().filter(|(at, _)| {
            let at = self.shared_ns(*at);
            at >= span.from && at <= span.end_with_slack()
        });
        let failures = failures.filter_map(|(_, found)| match measure {
            Measure::Allocated => found.allocated,
            Measure::Reserved => found.reserved,
            Measure::Used => found.used,
            _ => None,
        });
        self.highest(measure, span).max(failures.max())
    }

    /// All training steps at whose end a sample was taken.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The training steps that ended in a time span of the shared clock.
    pub(crate) fn steps_within(&self, span: Span) -> &[Step] {
        let shared = |step: &Step| self.shared_ns(step.at_ns);
        let first = self.steps.partition_point(|step| shared(step) < span.from);
        let end = self.steps.partition_point(|step| shared(step) <= span.to);
        &self.steps[first..end.max(first)]
    }

    /// The sampling gaps as time spans of the shared clock.
    pub(crate) fn gaps(&self) -> Vec<Span> {
        let gaps = self.gaps.iter();
        gaps.map(|(from, to)| Span::new(self.shared_ns(*from), self.shared_ns(*to)))
            .collect()
    }

    /// Whether the driver reports how much device memory the recorded process uses itself
    /// ([`Measure::Own`]).
    pub(crate) fn knows_own(&self) -> bool {
        self.knows_own
    }

    /// Whether the track contains host memory and not the memory of a device.
    pub(crate) fn is_host(&self) -> bool {
        self.device_id < 0
    }
}

/// The tracks of a run, one for each resource of each session, in order of rank. The second list
/// contains the host memory of ranks that have a device; the first list contains all other tracks.
pub(crate) fn split_tracks(run: &Run) -> (Vec<DrawnTrack>, Vec<DrawnTrack>) {
    let crowded = CrowdedDevices::of(&run.tracks);
    let with_device: BTreeSet<u32> = run
        .tracks
        .iter()
        .filter(|track| track.resource() != Resource::Host && !track.t_ns.is_empty())
        .map(|track| track.rank)
        .collect();
    let corrections = run.clock_corrections_ns();
    let mut tracks: Vec<DrawnTrack> = Vec::new();
    let mut hosts: Vec<DrawnTrack> = Vec::new();
    for (track, skew_ns) in run.tracks.iter().zip(corrections) {
        if track.t_ns.is_empty() {
            continue;
        }
        let is_beside = track.resource() == Resource::Host && with_device.contains(&track.rank);
        let drawn = DrawnTrack::of(track, skew_ns, crowded.knows_hidden(track));
        if is_beside {
            hosts.push(drawn);
        } else {
            tracks.push(drawn);
        }
    }
    for tracks in [&mut tracks, &mut hosts] {
        tracks.sort_by_key(|track| (track.rank, track.device_id, track.times.first().copied()));
    }
    (tracks, hosts)
}

/// The measure by which ranks are compared. If it is known for all ranks how much device memory
/// the process of the rank uses, the measure is this memory, because the memory used on the whole
/// device would be the same number for all ranks that share the device. Otherwise the measure is
/// the device's used memory or, if the used memory was not recorded, a counter of the allocator.
pub(crate) fn compared_measure(tracks: &[DrawnTrack]) -> Measure {
    if tracks.iter().all(DrawnTrack::knows_own) && !tracks.is_empty() {
        return Measure::Own;
    }
    let measures = [Measure::Used, Measure::Reserved, Measure::Allocated];
    let is_known = |measure: &Measure| tracks.iter().any(|track| track.knows(*measure));
    let found = measures.into_iter().find(is_known);
    found.unwrap_or(Measure::Allocated)
}
