//! Summaries: one number per session, rank or status.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use stormlog_format::{Map, Text, Value};

use super::about;
use super::events::{EventFilter, EventRow};
use super::sessions::SessionRow;
use crate::columns::EventRef;

/// What to summarize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the word that it is asked for by")]
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

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 8] = [
        Self::SessionCountByStatus,
        Self::PeakAllocatorAllocatedBytes,
        Self::PeakAllocatorReservedBytes,
        Self::PeakDeviceUsedBytes,
        Self::AlertCount,
        Self::CollectorDegradationTransitions,
        Self::InterruptedSessionsWithOomBundles,
        Self::HiddenMemoryGapGrowth,
    ];

    /// The word that it is asked for by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionCountByStatus => "session_count_by_status",
            Self::InterruptedSessionsWithOomBundles => "interrupted_sessions_with_oom_bundles",
            Self::PeakAllocatorAllocatedBytes => "peak_allocator_allocated_bytes",
            Self::PeakAllocatorReservedBytes => "peak_allocator_reserved_bytes",
            Self::PeakDeviceUsedBytes => "peak_device_used_bytes",
            Self::AlertCount => "alert_count",
            Self::CollectorDegradationTransitions => "collector_degradation_transitions",
            Self::HiddenMemoryGapGrowth => "hidden_memory_gap_growth",
        }
    }

    /// The metric that a word asks for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == word)
    }

    /// The counter of a peak.
    pub(crate) fn counter(self, event: EventRef<'_>) -> Option<i64> {
        let counters = event.counters();
        match self {
            Self::PeakAllocatorAllocatedBytes => counters.allocator_allocated_bytes,
            Self::PeakAllocatorReservedBytes => counters.allocator_reserved_bytes,
            Self::PeakDeviceUsedBytes => counters.device_used_bytes,
            _ => None,
        }
    }
}

/// What a number stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// A session.
    #[default]
    Session,
    /// A rank of a session.
    SessionRank,
    /// A rank of any session.
    Rank,
    /// All sessions of a status.
    Status,
}

impl GroupBy {
    /// Every way to group.
    pub const ALL: [Self; 4] = [Self::Session, Self::SessionRank, Self::Rank, Self::Status];

    /// The word that it is asked for by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::SessionRank => "session-rank",
            Self::Rank => "rank",
            Self::Status => "status",
        }
    }

    /// The way that a word asks for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == word)
    }

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

/// Session, rank and status that a number stands for.
pub(crate) type Group = (Option<Text>, Option<i64>, Option<Text>);

/// A number and what it stands for.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys of rows, described in docs/schemas"
)]
pub struct SummaryRow {
    pub metric: Metric,
    pub group_by: GroupBy,
    pub session_id: Option<Text>,
    pub rank: Option<i64>,
    pub status: Option<Text>,
    pub value: i64,
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

    /// The row, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("metric", self.metric.as_str());
        map.insert("group_by", self.group_by.as_str());
        map.insert("session_id", self.session_id.clone());
        map.insert("rank", self.rank);
        map.insert("status", self.status.clone());
        map.insert("value", self.value);
        for (key, value) in self.details.iter() {
            map.insert(key.clone(), value.clone());
        }
        map
    }

    /// Rows are in the order of the texts of what they stand for, so rank 10 is before 2.
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
    /// One number per group; groups for which there is nothing to say are left out.
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
        rows.sort_by_cached_key(SummaryRow::sort_key);
        rows
    }

    fn count_by_status(&self) -> Vec<SummaryRow> {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for row in self.all_sessions(None) {
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
        let is_one = |row: &SessionRow| {
            row.summary.status == stormlog_format::SessionStatus::Interrupted
                && row.oom_bundle_count > 0
        };
        let rows = self.all_sessions(None).into_iter().filter(is_one);
        rows.map(|row| {
            let status = Some(row.summary.status.as_str().into());
            SummaryRow::new(
                Metric::InterruptedSessionsWithOomBundles,
                GroupBy::Session,
                (Some(row.summary.session_id), None, status),
                row.oom_bundle_count,
            )
        })
        .collect()
    }

    fn summarize_events(&self, metric: Metric, group_by: GroupBy) -> Vec<SummaryRow> {
        let events = self.events(&EventFilter::default());
        let mut groups: Groups = Groups::new(group_by);
        for row in events.iter() {
            match metric {
                Metric::AlertCount if about::is_alert(row.event) => {
                    groups.of(row).count += 1;
                }
                Metric::CollectorDegradationTransitions if about::is_transition(row.event) => {
                    groups.of(row).count += 1;
                }
                Metric::HiddenMemoryGapGrowth => {
                    if let Some(gap) = sample_gap(row.event) {
                        groups.of(row).gap(gap);
                    }
                }
                metric => {
                    if let Some(value) = metric.counter(row.event) {
                        groups.of(row).peak(value, row.event.timestamp_ns());
                    }
                }
            }
        }
        groups.into_rows(metric)
    }
}

/// Used memory that the allocator does not know of, of a sample.
fn sample_gap(event: EventRef<'_>) -> Option<i64> {
    let counters = event.counters();
    let gap = counters.device_used_bytes? - counters.allocator_reserved_bytes?;
    about::is_sample(event).then_some(gap)
}

/// What was seen of one group.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: i64,
    best: Option<(i64, i64)>,
    first_gap: i64,
    latest_gap: i64,
    peak_gap: i64,
}

impl Seen {
    fn peak(&mut self, value: i64, time: i64) {
        if self.best.is_none_or(|(best, _)| value > best) {
            self.best = Some((value, time));
        }
    }

    fn gap(&mut self, gap: i64) {
        if self.count == 0 {
            self.first_gap = gap;
            self.peak_gap = gap;
        }
        self.count += 1;
        self.latest_gap = gap;
        self.peak_gap = self.peak_gap.max(gap);
    }
}

/// Groups while events pass by. Events of one source follow one another, so the group of
/// the last event is looked at first.
struct Groups {
    group_by: GroupBy,
    seen: Vec<(Group, Seen)>,
    places: HashMap<Group, usize>,
    recent: HashMap<(usize, i64, &'static str), usize>,
}

impl Groups {
    fn new(group_by: GroupBy) -> Self {
        Self {
            group_by,
            seen: Vec::new(),
            places: HashMap::new(),
            recent: HashMap::new(),
        }
    }

    fn of(&mut self, row: EventRow<'_>) -> &mut Seen {
        let origin = row.event.origin();
        // The address of an origin stands for its session: origins live as long as the rows.
        let key = (
            std::ptr::from_ref(origin).addr(),
            origin.rank,
            row.session_status,
        );
        let place = if let Some(place) = self.recent.get(&key) {
            *place
        } else {
            let group = self
                .group_by
                .key(&origin.session_id, origin.rank, row.session_status);
            let place = *self.places.entry(group.clone()).or_insert_with(|| {
                self.seen.push((group, Seen::default()));
                self.seen.len() - 1
            });
            self.recent.insert(key, place);
            place
        };
        &mut self.seen[place].1
    }

    fn into_rows(self, metric: Metric) -> Vec<SummaryRow> {
        let group_by = self.group_by;
        let rows = self.seen.into_iter().filter_map(|(group, seen)| {
            let row = |value| SummaryRow::new(metric, group_by, group, value);
            Some(match metric {
                Metric::AlertCount | Metric::CollectorDegradationTransitions => row(seen.count),
                Metric::HiddenMemoryGapGrowth => row(seen.latest_gap - seen.first_gap)
                    .with("first_gap_bytes", seen.first_gap)
                    .with("latest_gap_bytes", seen.latest_gap)
                    .with("peak_gap_bytes", seen.peak_gap)
                    .with("sample_count", seen.count),
                _ => {
                    let (value, time) = seen.best?;
                    row(value).with("timestamp_ns", time)
                }
            })
        });
        rows.collect()
    }
}
