//! One collector of the recorder, together with the state of its device. This module turns the
//! readings of the collector into events.

use std::sync::Arc;

use stormlog_format::{Counters, EventType, Map, Text, metadata_keys};

use super::Detail;
use super::alerts::{AlertState, Scope, Thresholds};
use super::event::TrackedEvent;
use super::statistics::Tally;
use super::wording::Wording;
use crate::clock::now_ns;
use crate::collect::health::{Health, Status};
use crate::collect::{CollectError, Collector, CounterSource, Notice, Reading};

/// The result of taking one sample: the events to record, and what to add to the session's
/// statistics.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) events: Vec<TrackedEvent>,
    pub(crate) tally: Tally,
    /// Whether the collector can no longer be read, for example because the watched process has
    /// ended.
    pub(crate) gone: bool,
}

/// One collector of the recorder, with its health, its last reading, and the alerts that its
/// readings caused.
pub(crate) struct Channel {
    collector: Box<dyn Collector>,
    source: Arc<CounterSource>,
    wording: Wording,
    health: Health,
    shared_health: Arc<Health>,
    last: Option<Reading>,
    peak: i64,
    total: Option<i64>,
    alerts: AlertState,
    detail: Detail,
}

impl Channel {
    pub(crate) fn new(collector: Box<dyn Collector>, detail: Detail) -> Self {
        let source = Arc::new(collector.source().clone());
        let wording = if source.is_host() {
            Wording::Host
        } else {
            Wording::Device
        };
        Self {
            collector,
            wording,
            source,
            health: Health::default(),
            shared_health: Arc::default(),
            last: None,
            peak: 0,
            total: None,
            alerts: AlertState::default(),
            detail,
        }
    }

    /// Resets the health, the last reading and the alerts, but not the collector itself.
    pub(crate) fn reset(&mut self) {
        self.health = Health::default();
        self.shared_health = Arc::default();
        self.last = None;
        self.peak = 0;
        self.alerts = AlertState::default();
    }

    pub(crate) fn wording(&self) -> Wording {
        self.wording
    }

    /// The health of the collector, the total memory of its device, and the collector's source.
    pub(crate) fn described(&self) -> (Health, Option<i64>, CounterSource) {
        let source = CounterSource::clone(&self.source);
        (self.health.clone(), self.total, source)
    }

    /// Takes a reading; `None` when the collector fails or when the delay after an earlier failure
    /// is not over.
    pub(crate) fn look(&mut self) -> Option<Reading> {
        if !self.health.may_read(now_ns()) {
            return None;
        }
        let reading = self.collector.read().ok()?;
        self.total = reading.counters.device_total_bytes.or(self.total);
        Some(reading)
    }

    /// Takes the first reading of a session. Memory that is in use at the start of a session does
    /// not count as a change of memory.
    pub(crate) fn begin(&mut self) -> (TrackedEvent, Vec<TrackedEvent>) {
        let reading = self.look();
        self.last.clone_from(&reading);
        let mut start = self.event_at(
            reading.as_ref(),
            EventType::Start.as_str(),
            self.wording.started(),
        );
        if let Some(uuid) = self.collector.device_uuid() {
            start.metadata.insert(metadata_keys::DEVICE_UUID, &*uuid);
        }
        if let Some(kind) = self.collector.device_memory() {
            start.metadata.insert("device_memory", kind);
        }
        let notices = reading.map_or_else(Vec::new, |reading| self.notices(&reading));
        (start, notices)
    }

    fn notices(&self, reading: &Reading) -> Vec<TrackedEvent> {
        let notices = reading.notices.iter().cloned();
        notices
            .map(|notice| self.notice_event(notice, Some(reading)))
            .collect()
    }

    fn notice_event(&self, notice: Notice, reading: Option<&Reading>) -> TrackedEvent {
        let mut event = self.event_at(reading, notice.event_type, &notice.context);
        event.metadata = notice.metadata;
        event
    }

    /// Reads the collector, and returns the events to record: samples, changes of memory, alerts,
    /// and changes of the collector's health.
    pub(crate) fn step(&mut self, thresholds: Option<&Thresholds>) -> Step {
        let now = now_ns();
        if !self.health.may_read(now) {
            return Step::default();
        }
        match self.collector.readings() {
            Ok(readings) => {
                let mut all = Step::default();
                for reading in readings {
                    let step = self.sampled(reading, thresholds);
                    all.events.extend(step.events);
                    all.tally.add(&step.tally);
                }
                all
            }
            Err(CollectError::Gone(_)) => Step {
                gone: true,
                ..Step::default()
            },
            Err(error) => {
                let transition = self.health.failed(&error, now);
                self.share_health();
                let event =
                    transition.map(|found| self.transition_event(found, self.last.as_ref()));
                Step {
                    events: event.into_iter().collect(),
                    ..Step::default()
                }
            }
        }
    }

    fn sampled(&mut self, reading: Reading, thresholds: Option<&Thresholds>) -> Step {
        let mut step = Step::default();
        let level = reading.level();
        let before = self.last.as_ref().map_or(level, Reading::level);
        let change = level - before;
        self.total = reading.counters.device_total_bytes.or(self.total);
        let transition = self.health.succeeded(&reading);
        self.share_health();
        let transition = transition.map(|found| self.transition_event(found, Some(&reading)));
        step.events.extend(transition);
        step.events.extend(self.notices(&reading));
        let highest = level.max(reading.peak_bytes.unwrap_or(level));
        if self.detail != Detail::Samples {
            let changes = self.change_events(&reading, change, highest);
            step.events.extend(changes);
        }
        self.peak = self.peak.max(highest);
        step.tally = Tally {
            peak: self.peak,
            allocations: i64::from(change > 0),
            deallocations: i64::from(change < 0),
            allocated_bytes: change.max(0),
            deallocated_bytes: (-change).max(0),
            alerts: 0,
            samples: 1,
            checked_at_ns: Some(reading.timestamp_ns),
        };
        if let Some(thresholds) = thresholds {
            let alerts = self.alert_events(&reading, change, thresholds);
            step.events.extend(alerts);
        }
        let context = self.wording.sampled(&reading);
        let mut sample = self.event_at(Some(&reading), EventType::Sample.as_str(), &context);
        sample.metadata.clone_from(&reading.metadata);
        step.events.push(sample);
        self.last = Some(reading);
        step
    }

    /// The events about a new peak of `highest` bytes and about a level that has changed.
    fn change_events(&self, reading: &Reading, change: i64, highest: i64) -> Vec<TrackedEvent> {
        let event = |event_type: EventType, context: &str| {
            let mut event = self.event_at(Some(reading), event_type.as_str(), context);
            event.counters.allocator_change_bytes = Some(change);
            event
        };
        let mut events = Vec::new();
        if highest > self.peak {
            let mut peak = event(EventType::Peak, &self.wording.peak(highest));
            if highest > reading.level() {
                peak.metadata.insert("peak_bytes", highest);
            }
            events.push(peak);
        }
        if change > 0 {
            events.push(event(EventType::Allocation, &self.wording.grown(change)));
        } else if change < 0 {
            let context = self.wording.shrunk(-change);
            events.push(event(EventType::Deallocation, &context));
        }
        events
    }

    /// The events about alert conditions that begin, go on or end with this reading.
    fn alert_events(
        &mut self,
        reading: &Reading,
        change: i64,
        thresholds: &Thresholds,
    ) -> Vec<TrackedEvent> {
        let has_allocator =
            !self.source.is_host() && reading.counters.allocator_reserved_bytes.is_some();
        let scope = if has_allocator {
            Scope::Allocator
        } else {
            Scope::UsageOnly
        };
        let alerts = self
            .alerts
            .check(reading, change, self.total, thresholds, scope);
        let events = alerts.into_iter().map(|alert| {
            let mut event = self.notice_event(alert, Some(reading));
            event.counters.allocator_change_bytes = Some(change);
            event
        });
        events.collect()
    }

    /// Makes an event that is not a sample, such as the end of the session or the start of a phase,
    /// with the counters read now. If the collector cannot be read, the event has the counters of
    /// the last reading.
    pub(crate) fn event_now(&mut self, event_type: &str, context: &str) -> TrackedEvent {
        let reading = self.look().or_else(|| self.last.clone());
        let mut event = self.event_at(reading.as_ref(), event_type, context);
        event.timestamp_ns = event.timestamp_ns.max(now_ns());
        event
    }

    fn transition_event(&self, transition: Notice, reading: Option<&Reading>) -> TrackedEvent {
        let mut event = self.notice_event(transition, reading);
        if self.health.status == Status::Unhealthy {
            event.timestamp_ns = now_ns();
        }
        event
    }

    fn event_at(&self, reading: Option<&Reading>, event_type: &str, context: &str) -> TrackedEvent {
        let mut counters = reading.map_or_else(Counters::default, |reading| reading.counters);
        if counters.allocator_allocated_bytes.is_some() {
            counters.allocator_change_bytes = Some(0);
        }
        TrackedEvent {
            timestamp_ns: reading.map_or_else(now_ns, |reading| reading.timestamp_ns),
            event_type: event_type.into(),
            device_id: reading
                .or(self.last.as_ref())
                .map_or(if self.source.is_host() { -1 } else { 0 }, |reading| {
                    reading.device_id
                }),
            counters,
            context: Some(Text::from(context)),
            metadata: Map::new(),
            health: self.shared_health.clone(),
            source: self.source.clone(),
            known_total: self.total,
            is_brief: self.detail == Detail::Samples && event_type != EventType::Start.as_str(),
        }
    }

    fn share_health(&mut self) {
        if *self.shared_health != self.health {
            self.shared_health = Arc::new(self.health.clone());
        }
    }
}
