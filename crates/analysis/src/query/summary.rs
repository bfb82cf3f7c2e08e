//! Computes summaries: one number per session, rank or status, such as the peak of a counter.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use stormlog_format::classify::is_collector_transition;
use stormlog_format::{Map, Text, Value};

use super::about;
use super::events::{EventFilter, Home};
use super::sessions::SessionRow;
use crate::columns::EventRef;
use crate::in_order::InOrder;

/// What a summary computes for each group, such as the number of alerts or the peak of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant has the name of the metric that it selects"
)]
pub enum Metric {
    SessionCountByStatus,
    InterruptedSessionsWithOomBundles,
    PeakAllocatorAllocatedBytes,
    PeakAllocatorReservedBytes,
    PeakDeviceUsedBytes,
    AlertCount,
    CollectorDegradationTransitions,
    HiddenMemoryGapGrowth,
}

stormlog_format::names!(Metric {
    SessionCountByStatus => "session_count_by_status",
    PeakAllocatorAllocatedBytes => "peak_allocator_allocated_bytes",
    PeakAllocatorReservedBytes => "peak_allocator_reserved_bytes",
    PeakDeviceUsedBytes => "peak_device_used_bytes",
    AlertCount => "alert_count",
    CollectorDegradationTransitions => "collector_degradation_transitions",
    InterruptedSessionsWithOomBundles => "interrupted_sessions_with_oom_bundles",
    HiddenMemoryGapGrowth => "hidden_memory_gap_growth",
});

impl Metric {
    /// For a metric that is the peak of a counter, the event's value of that counter; `None` for
    /// other metrics.
    pub(crate) fn counter(self, event: EventRef<'_>) -> Option<i64> {
        match self {
            Self::PeakAllocatorAllocatedBytes => event.allocated_bytes(),
            Self::PeakAllocatorReservedBytes => event.reserved_bytes(),
            Self::PeakDeviceUsedBytes => event.used_bytes(),
            _ => None,
        }
    }
}

/// How the numbers of a summary are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// One number per session.
    #[default]
    Session,
    /// One number per session and rank.
    SessionRank,
    /// One number per rank, over all sessions.
    Rank,
    /// One number per status of sessions.
    Status,
}

stormlog_format::names!(GroupBy {
    Session => "session",
    SessionRank => "session-rank",
    Rank => "rank",
    Status => "status",
});

impl GroupBy {
    pub(crate) fn key(self, session: &Text, rank: i64, status: &str) -> Group {
        let session = || Some(session.clone());
        match self {
            Self::Session => (session(), None, None),
            Self::SessionRank => (session(), Some(rank), None),
            Self::Rank => (None, Some(rank), None),
            Self::Status => (None, None, Some(status.into())),
        }
    }
}

/// The session id, rank and status that identify a group of a summary; `None` for those by which
/// the summary does not group.
pub(crate) type Group = (Option<Text>, Option<i64>, Option<Text>);

/// A row of a summary: the value of a metric for one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key of the printed row, described in docs/schemas"
)]
pub struct SummaryRow {
    pub metric: Metric,
    pub group_by: GroupBy,
    pub session_id: Option<Text>,
    pub rank: Option<i64>,
    pub status: Option<Text>,
    pub value: i64,
    #[serde(flatten)]
    pub details: Map,
}

impl SummaryRow {
    pub(crate) fn new(metric: Metric, group_by: GroupBy, group: Group, value: i64) -> Self {
        let (session_id, rank, status) = group;
        Self {
            metric,
            group_by,
            session_id,
            rank,
            status,
            value,
            details: Map::new(),
        }
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key, value);
        self
    }

    /// Sorts rows by session id, rank and status, as query results list them.
    pub fn sort(rows: &mut [Self]) {
        rows.sort_by_cached_key(Self::sort_key);
    }

    /// The sort key of a row: the texts of its group. Ranks are compared as texts, so rank 10 comes
    /// before rank 2.
    fn sort_key(&self) -> (Text, String, Text) {
        let rank = self.rank.map(|rank| rank.to_string()).unwrap_or_default();
        let (session, status) = (self.session_id.clone(), self.status.clone());
        (
            session.unwrap_or_default(),
            rank,
            status.unwrap_or_default(),
        )
    }
}

impl super::Store {
    /// Computes the metric for each group. Groups without a value are left out.
    pub fn summarize(&self, metric: Metric, group_by: GroupBy) -> Vec<SummaryRow> {
        match metric {
            Metric::SessionCountByStatus => return self.count_by_status(),
            Metric::InterruptedSessionsWithOomBundles => return self.interrupted_with_bundles(),
            _ => {}
        }
        let mut rows = match self.summarize_rollups(metric, group_by) {
            Some(rows) => rows,
            None => self.summarize_events(metric, group_by),
        };
        SummaryRow::sort(&mut rows);
        rows
    }

    fn count_by_status(&self) -> Vec<SummaryRow> {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for row in self.sessions_as_written() {
            *counts.entry(row.summary.status.as_str()).or_default() += 1;
        }
        let counts = counts.into_iter();
        counts
            .map(|(status, count)| {
                let group = (None, None, Some(status.into()));
                SummaryRow::new(Metric::SessionCountByStatus, GroupBy::Status, group, count)
            })
            .collect()
    }

    fn interrupted_with_bundles(&self) -> Vec<SummaryRow> {
        let is_one = |row: &&SessionRow| {
            row.summary.status == stormlog_format::SessionStatus::Interrupted
                && row.oom_bundle_count > 0
        };
        let rows = self.sessions_as_written().iter().filter(is_one);
        rows.map(|row| {
            let status = Some(row.summary.status.as_str().into());
            SummaryRow::new(
                Metric::InterruptedSessionsWithOomBundles,
                GroupBy::Session,
                (Some(row.summary.session_id.clone()), None, status),
                row.oom_bundle_count,
            )
        })
        .collect()
    }

    fn summarize_events(&self, metric: Metric, group_by: GroupBy) -> Vec<SummaryRow> {
        let homes = self.homes(&EventFilter::default());
        let parts: Vec<Vec<(Group, Seen<'_>)>> = homes
            .par_iter()
            .map(|home| seen_at_home(metric, group_by, home))
            .collect();
        let mut all: InOrder<Group, Seen<'_>> = InOrder::default();
        for (group, seen) in parts.into_iter().flatten() {
            all.entry(group).join(seen);
        }
        all.into_entries()
            .into_iter()
            .filter_map(|(group, seen)| seen.into_row(metric, group_by, group))
            .collect()
    }
}

/// Aggregates the events of one session, which are in order of time, by group.
fn seen_at_home(metric: Metric, group_by: GroupBy, home: &Home) -> Vec<(Group, Seen<'_>)> {
    let mut groups: InOrder<Group, Seen<'_>> = InOrder::default();
    let mut of_origin: Vec<Option<usize>> = vec![None; home.events.origin_count()];
    for (_, event, origin) in home.events.of_type(|_| true) {
        let value = match metric {
            Metric::AlertCount => about::is_alert(event).then_some(0),
            Metric::CollectorDegradationTransitions => {
                is_collector_transition(event.event_type()).then_some(0)
            }
            Metric::HiddenMemoryGapGrowth => sample_gap(event),
            metric => metric.counter(event),
        };
        let Some(value) = value else { continue };
        let index = *of_origin[origin].get_or_insert_with(|| {
            let origin = event.origin();
            groups.index_of(group_by.key(&origin.session_id, origin.rank, home.session_status))
        });
        groups.at(index).add(value, event);
    }
    groups.into_entries()
}

/// The bytes of a sample that are in use on the device but not reserved by the allocator; `None`
/// for events that are not samples, or when either number is unknown.
fn sample_gap(event: EventRef<'_>) -> Option<i64> {
    let gap = event.used_bytes()?.saturating_sub(event.reserved_bytes()?);
    about::is_sample(event).then_some(gap)
}

/// A value with the time and session of its event; at equal times, the session decides the order.
#[derive(Clone, Copy, Debug)]
struct Sighting<'a> {
    value: i64,
    at: (i64, &'a Text),
}

/// The number of values in one group, and the first, the latest and the largest of them.
#[derive(Clone, Copy, Debug, Default)]
struct Seen<'a> {
    count: i64,
    first: Option<Sighting<'a>>,
    latest: Option<Sighting<'a>>,
    /// The largest value of the group; of equal values, the first counts.
    peak: Option<Sighting<'a>>,
}

impl<'a> Seen<'a> {
    /// Adds a value to the group; values must be added in order of time.
    fn add(&mut self, value: i64, event: EventRef<'a>) {
        let at = (event.timestamp_ns(), &event.origin().session_id);
        let sighting = Sighting { value, at };
        self.count += 1;
        self.first = self.first.or(Some(sighting));
        self.latest = Some(sighting);
        if self.peak.is_none_or(|peak| value > peak.value) {
            self.peak = Some(sighting);
        }
    }

    /// Adds the values of the same group from another source. At equal times, the values already
    /// stored come first.
    fn join(&mut self, other: Self) {
        let choose = |ours: Option<Sighting<'a>>,
                      theirs: Option<Sighting<'a>>,
                      prefers: fn(&Sighting<'_>, &Sighting<'_>) -> bool| {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) if prefers(&theirs, &ours) => Some(theirs),
                (ours, theirs) => ours.or(theirs),
            }
        };
        self.count += other.count;
        self.first = choose(self.first, other.first, |new, old| new.at < old.at);
        self.latest = choose(self.latest, other.latest, |new, old| new.at >= old.at);
        self.peak = choose(self.peak, other.peak, |new, old| {
            new.value > old.value || (new.value == old.value && new.at < old.at)
        });
    }

    fn into_row(self, metric: Metric, group_by: GroupBy, group: Group) -> Option<SummaryRow> {
        let (first, latest, peak) = (self.first?, self.latest?, self.peak?);
        let row = |value| SummaryRow::new(metric, group_by, group, value);
        Some(match metric {
            Metric::AlertCount | Metric::CollectorDegradationTransitions => row(self.count),
            Metric::HiddenMemoryGapGrowth => row(latest.value.saturating_sub(first.value))
                .with("first_gap_bytes", first.value)
                .with("latest_gap_bytes", latest.value)
                .with("peak_gap_bytes", peak.value)
                .with("sample_count", self.count),
            _ => row(peak.value).with("timestamp_ns", peak.at.0),
        })
    }
}
