//! Builds rollups one event at a time.
//!
//! Rollups can be merged, so a sink keeps one [`SegmentRollup`] per segment and drops it when the
//! segment is deleted. The events of a rollup may arrive in any order. Events are ordered by their
//! times and, for equal times, by their arrival.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{
    AlertSummary, CounterSummary, HealthSummary, OomSummary, Peak, RankRollup, SessionRollup,
    WindowRollup,
};
use super::observe::{Health, Incident, Kind, Observation};
use crate::number::round_to_6;
use crate::session::SessionSummary;
use crate::text::Text;

/// The rollup of some events of a session, usually of the events of one segment. The time windows
/// of a rollup are counted from the start of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentRollup {
    started_at_ns: i64,
    window_ns: i64,
    totals: Totals,
    peaks: CounterSummary,
    alerts: BTreeMap<Text, i64>,
    alert_types: BTreeMap<Text, i64>,
    oom_count: i64,
    dump_paths: BTreeSet<Text>,
    /// The changes of the collector's health: the time of each change, and true if the collector
    /// became degraded or false if it recovered.
    transitions: Vec<(i64, bool)>,
    /// The latest known health of the collector, with the time of the event that reported it.
    health: Option<(i64, Health)>,
    ranks: BTreeMap<i64, RankTotals>,
    windows: BTreeMap<i64, Window>,
}

/// Counts and times that the rollups of sessions, ranks and time windows have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    event_count: i64,
    sample_count: i64,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct RankTotals {
    /// The local rank and the world size in the earliest event of the rank.
    local_rank: i64,
    world_size: i64,
    totals: Totals,
    peaks: CounterSummary,
    gap: Option<Gap>,
}

/// The difference between used device memory and reserved allocator memory: the first, the latest
/// and the highest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    first: (i64, i64),
    latest: (i64, i64),
    peak: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Window {
    totals: Totals,
    ranks: BTreeSet<i64>,
    peaks: CounterSummary,
    alert_count: i64,
    transition_count: i64,
    oom_count: i64,
}

impl SegmentRollup {
    /// Makes an empty rollup for a session that started at the given time.
    pub fn new(started_at_ns: i64, window_ns: i64) -> Self {
        Self {
            started_at_ns,
            window_ns: window_ns.max(1),
            totals: Totals::default(),
            peaks: CounterSummary::default(),
            alerts: BTreeMap::new(),
            alert_types: BTreeMap::new(),
            oom_count: 0,
            dump_paths: BTreeSet::new(),
            transitions: Vec::new(),
            health: None,
            ranks: BTreeMap::new(),
            windows: BTreeMap::new(),
        }
    }

    /// The start of the session in nanoseconds since the Unix epoch. The first time window begins
    /// at this time.
    pub fn started_at_ns(&self) -> i64 {
        self.started_at_ns
    }

    /// Adds one event to the totals, peaks and counts.
    pub fn observe(&mut self, event: &Observation) {
        self.observe_all(std::slice::from_ref(event));
    }

    /// Adds events in the order of their arrival. Neighbouring events usually have the same rank
    /// and time window, so rank and window are looked up only once for them.
    pub fn observe_all(&mut self, events: &[Observation]) {
        let (started_at_ns, window_ns) = (self.started_at_ns, self.window_ns);
        let window_of = |event: &Observation| {
            let since_start = event.timestamp_ns.saturating_sub(started_at_ns);
            since_start.div_euclid(window_ns).max(0)
        };
        let are_together =
            |a: &Observation, b: &Observation| a.rank == b.rank && window_of(a) == window_of(b);
        for run in events.chunk_by(are_together) {
            self.observe_run(run, window_of(&run[0]));
            for event in run {
                self.note_incidents(event);
            }
        }
    }

    /// Adds neighbouring events that all belong to the same rank and to the time window with the
    /// index `window`.
    fn observe_run(&mut self, events: &[Observation], window: i64) {
        let first = &events[0];
        let rank = self.ranks.entry(first.rank).or_insert_with(|| RankTotals {
            local_rank: first.local_rank,
            world_size: first.world_size,
            totals: Totals::default(),
            peaks: CounterSummary::default(),
            gap: None,
        });
        let window = self.windows.entry(window).or_default();
        window.ranks.insert(first.rank);
        for event in events {
            self.totals.observe(event);
            observe_peaks(&mut self.peaks, event);
            rank.observe(event);
            window.observe(event);
        }
    }

    /// Adds what is counted for the session as a whole and not by rank: the collector's health,
    /// alerts and out-of-memory errors.
    fn note_incidents(&mut self, event: &Observation) {
        if event.kind.is_transition() {
            let is_degraded = event.kind == Kind::Degraded;
            self.transitions.push((event.timestamp_ns, is_degraded));
            let health = if is_degraded {
                Health::Degraded
            } else {
                Health::Healthy
            };
            self.note_health(event.timestamp_ns, &health);
        } else if let Some(health) = &event.health {
            self.note_health(event.timestamp_ns, health);
        }
        if let Some(incident) = &event.incident {
            self.observe_incident(incident);
        }
    }

    fn observe_incident(&mut self, incident: &Incident) {
        if let Some((event_type, severity)) = &incident.alert {
            *self.alerts.entry(severity.clone()).or_default() += 1;
            *self.alert_types.entry(event_type.clone()).or_default() += 1;
        }
        self.oom_count += i64::from(incident.is_oom);
        self.dump_paths.extend(incident.dump_path.clone());
    }

    fn note_health(&mut self, time: i64, health: &Health) {
        if self
            .health
            .as_ref()
            .is_none_or(|(latest, _)| time >= *latest)
        {
            self.health = Some((time, health.clone()));
        }
    }

    /// Adds the rollup of later events of the same session.
    pub fn merge(&mut self, later: &Self) {
        self.totals.merge(later.totals);
        merge_peaks(&mut self.peaks, &later.peaks);
        for (mine, theirs) in [
            (&mut self.alerts, &later.alerts),
            (&mut self.alert_types, &later.alert_types),
        ] {
            for (name, count) in theirs {
                *mine.entry(name.clone()).or_default() += count;
            }
        }
        self.oom_count += later.oom_count;
        self.dump_paths.extend(later.dump_paths.iter().cloned());
        self.transitions.extend_from_slice(&later.transitions);
        if let Some((time, health)) = &later.health {
            self.note_health(*time, health);
        }
        for (number, theirs) in &later.ranks {
            match self.ranks.get_mut(number) {
                Some(mine) => mine.merge(theirs),
                None => {
                    self.ranks.insert(*number, theirs.clone());
                }
            }
        }
        for (index, theirs) in &later.windows {
            self.windows.entry(*index).or_default().merge(theirs);
        }
    }

    fn alerts(&self) -> AlertSummary {
        let counts = |counts: &BTreeMap<Text, i64>| {
            let counts = counts.iter().map(|(name, count)| (name.clone(), *count));
            counts.collect::<Vec<_>>()
        };
        AlertSummary {
            total_count: self.alerts.values().sum(),
            severity_counts: counts(&self.alerts),
            event_type_counts: counts(&self.alert_types),
        }
    }

    fn health(&self, end_ns: Option<i64>) -> HealthSummary {
        let mut transitions = self.transitions.clone();
        transitions.sort_by_key(|(time, _)| *time);
        let mut summary = HealthSummary {
            last_status: self.health.as_ref().map(|(_, status)| status.word()),
            ..HealthSummary::default()
        };
        let mut since: Option<i64> = None;
        for (time, is_degraded) in transitions {
            summary.transition_count += 1;
            if is_degraded {
                summary.degraded_count += 1;
                since = Some(time);
            } else {
                summary.recovered_count += 1;
                let lasted = since.take().map_or(0, |since| time.saturating_sub(since));
                summary.degraded_time_ns += lasted.max(0);
            }
        }
        // Some writers record an end of zero for a session that has not ended, so the time of the
        // last event is used instead.
        let end = end_ns.filter(|end| *end != 0).or(self.totals.last_ns);
        if let (Some(since), Some(end)) = (since, end) {
            summary.degraded_time_ns += end.saturating_sub(since).max(0);
        }
        summary
    }
}

impl Totals {
    fn observe(&mut self, event: &Observation) {
        self.merge(Self {
            event_count: 1,
            sample_count: i64::from(event.kind == Kind::Sample),
            first_ns: Some(event.timestamp_ns),
            last_ns: Some(event.timestamp_ns),
        });
    }

    fn merge(&mut self, later: Self) {
        self.event_count += later.event_count;
        self.sample_count += later.sample_count;
        self.first_ns = match (self.first_ns, later.first_ns) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.last_ns = self.last_ns.max(later.last_ns);
    }
}

impl RankTotals {
    fn observe(&mut self, event: &Observation) {
        if self
            .totals
            .first_ns
            .is_some_and(|first| event.timestamp_ns < first)
        {
            self.local_rank = event.local_rank;
            self.world_size = event.world_size;
        }
        self.totals.observe(event);
        observe_peaks(&mut self.peaks, event);
        let counters = (event.device_used_bytes, event.allocator_reserved_bytes);
        if let (Kind::Sample, (Some(used), Some(reserved))) = (event.kind, counters) {
            let gap = used.saturating_sub(reserved);
            self.note_gap(Gap {
                first: (event.timestamp_ns, gap),
                latest: (event.timestamp_ns, gap),
                peak: gap,
            });
        }
    }

    fn note_gap(&mut self, later: Gap) {
        let Some(gap) = &mut self.gap else {
            self.gap = Some(later);
            return;
        };
        if later.first.0 < gap.first.0 {
            gap.first = later.first;
        }
        if later.latest.0 >= gap.latest.0 {
            gap.latest = later.latest;
        }
        gap.peak = gap.peak.max(later.peak);
    }

    fn merge(&mut self, later: &Self) {
        if later.totals.first_ns < self.totals.first_ns {
            self.local_rank = later.local_rank;
            self.world_size = later.world_size;
        }
        self.totals.merge(later.totals);
        merge_peaks(&mut self.peaks, &later.peaks);
        if let Some(gap) = later.gap {
            self.note_gap(gap);
        }
    }

    fn rollup(&self, rank: i64) -> RankRollup {
        let gap = self.gap;
        RankRollup {
            rank,
            local_rank: self.local_rank,
            world_size: self.world_size,
            event_count: self.totals.event_count,
            sample_count: self.totals.sample_count,
            first_timestamp_ns: self.totals.first_ns,
            last_timestamp_ns: self.totals.last_ns,
            counters: self.peaks,
            hidden_gap_first_bytes: gap.map(|gap| gap.first.1),
            hidden_gap_latest_bytes: gap.map(|gap| gap.latest.1),
            hidden_gap_peak_bytes: gap.map(|gap| gap.peak),
            hidden_gap_delta_bytes: gap.map(|gap| gap.latest.1.saturating_sub(gap.first.1)),
            hidden_gap_drift_bytes_per_second: gap.and_then(drift),
        }
    }
}

fn drift(gap: Gap) -> Option<f64> {
    let elapsed_ns = gap.latest.0.saturating_sub(gap.first.0);
    let change = gap.latest.1.saturating_sub(gap.first.1);
    (elapsed_ns > 0).then(|| round_to_6(change as f64 / (elapsed_ns as f64 / 1e9)))
}

impl Window {
    fn observe(&mut self, event: &Observation) {
        self.totals.observe(event);
        observe_peaks(&mut self.peaks, event);
        self.transition_count += i64::from(event.kind.is_transition());
        if let Some(incident) = &event.incident {
            self.alert_count += i64::from(incident.alert.is_some());
            self.oom_count += i64::from(incident.is_oom);
        }
    }

    fn merge(&mut self, later: &Self) {
        self.totals.merge(later.totals);
        self.ranks.extend(&later.ranks);
        merge_peaks(&mut self.peaks, &later.peaks);
        self.alert_count += later.alert_count;
        self.transition_count += later.transition_count;
        self.oom_count += later.oom_count;
    }
}

fn observe_peaks(peaks: &mut CounterSummary, event: &Observation) {
    for (peak, value) in [
        (
            &mut peaks.allocator_allocated_bytes,
            event.allocator_allocated_bytes,
        ),
        (
            &mut peaks.allocator_reserved_bytes,
            event.allocator_reserved_bytes,
        ),
        (&mut peaks.device_used_bytes, event.device_used_bytes),
    ] {
        if is_new_peak(peak, value, Some(event.timestamp_ns)) {
            *peak = Peak {
                value,
                timestamp_ns: Some(event.timestamp_ns),
                rank: Some(event.rank),
                device_id: Some(event.device_id),
            };
        }
    }
}

/// Whether a value is higher than the peak so far, or equal to it at an earlier time.
fn is_new_peak(peak: &Peak, value: Option<i64>, time: Option<i64>) -> bool {
    value.is_some() && (value > peak.value || value == peak.value && time < peak.timestamp_ns)
}

fn merge_peaks(mine: &mut CounterSummary, later: &CounterSummary) {
    for (mine, later) in [
        (
            &mut mine.allocator_allocated_bytes,
            &later.allocator_allocated_bytes,
        ),
        (
            &mut mine.allocator_reserved_bytes,
            &later.allocator_reserved_bytes,
        ),
        (&mut mine.device_used_bytes, &later.device_used_bytes),
    ] {
        if is_new_peak(mine, later.value, later.timestamp_ns) {
            *mine = *later;
        }
    }
}

/// Builds the rollup of a whole session from the rollups of its segments or from its events.
#[derive(Clone, Debug)]
pub struct SessionRollupBuilder {
    session: SessionSummary,
    events: SegmentRollup,
    sources: Vec<Text>,
    warnings: Vec<Text>,
}

impl SessionRollupBuilder {
    /// Makes a builder for the rollup of a session, at first without events.
    pub fn new(session: SessionSummary, window_ns: i64) -> Self {
        Self {
            events: SegmentRollup::new(session.started_at_ns, window_ns),
            session,
            sources: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The summary of the session.
    pub fn session(&self) -> &SessionSummary {
        &self.session
    }

    /// Adds the name of a file that contains events of the session.
    pub fn add_source(&mut self, source: Text) {
        self.sources.push(source);
    }

    /// Adds a warning that the rollup lists under the key `warnings`.
    pub fn add_warning(&mut self, warning: Text) {
        self.warnings.push(warning);
    }

    /// Adds one event of the session.
    pub fn observe(&mut self, event: &Observation) {
        self.events.observe(event);
    }

    /// Adds the rollup of one segment of the session.
    pub fn merge(&mut self, later: &SegmentRollup) {
        self.events.merge(later);
    }

    /// The rollup of everything that was added.
    pub fn finish(mut self) -> SessionRollup {
        self.sources.sort();
        let events = self.events;
        let windows = events.windows.iter().map(|(index, window)| {
            let start_ns = index
                .saturating_mul(events.window_ns)
                .saturating_add(events.started_at_ns);
            WindowRollup {
                index: *index,
                start_ns,
                end_ns: start_ns.saturating_add(events.window_ns),
                event_count: window.totals.event_count,
                sample_count: window.totals.sample_count,
                rank_count: i64::try_from(window.ranks.len()).unwrap_or(i64::MAX),
                counters: window.peaks,
                alert_count: window.alert_count,
                collector_transition_count: window.transition_count,
                oom_count: window.oom_count,
            }
        });
        SessionRollup {
            event_count: events.totals.event_count,
            sample_count: events.totals.sample_count,
            first_timestamp_ns: events.totals.first_ns,
            last_timestamp_ns: events.totals.last_ns,
            source_count: i64::try_from(self.sources.len()).unwrap_or(i64::MAX),
            sources_loaded: self.sources,
            warnings: self.warnings,
            counters: events.peaks,
            alerts: events.alerts(),
            collector_health: events.health(self.session.ended_at_ns),
            oom: OomSummary {
                marker_count: events.oom_count,
                event_count: events.oom_count,
                bundle_path_count: i64::try_from(events.dump_paths.len()).unwrap_or(i64::MAX),
            },
            ranks: events
                .ranks
                .iter()
                .map(|(number, rank)| rank.rollup(*number))
                .collect(),
            windows: windows.collect(),
            session: self.session,
        }
    }
}
