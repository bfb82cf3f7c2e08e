//! Computes the statistics of a session, which the trackers of the Python package return.

use stormlog_format::{Map, Text, Value, json, signed};

use super::channel::Channel;
use super::{Recorder, State};
use crate::clock::now_ns;
use crate::collect::CounterSource;
use crate::collect::health::{Health, Status};

impl Recorder {
    /// The counts and sums of the session (allocations, alerts, samples), under the names that the
    /// Python trackers use.
    pub fn tally(&self) -> Map {
        let state = self.state();
        state.tally.to_map(state.started_at_ns)
    }

    /// Reads the counters of the first collector now; `None` if the collector cannot be read.
    pub fn current(&self) -> Option<crate::collect::Reading> {
        self.with_channels(|channels| channels.first_mut().and_then(Channel::look))?
    }

    /// The statistics of a session that Python's trackers of device memory return, under the names
    /// that the trackers use. The argument `last_bundle` is the path of the last out-of-memory
    /// bundle.
    pub fn device_statistics(&self, last_bundle: Option<&Text>) -> Map {
        let current = self.current();
        let known = self.with_channels(|channels| channels.first().map(Channel::described));
        let state = self.state();
        // When the collector is busy, its health is taken from the last recorded event.
        let last = || {
            let last = state.history.iter().next_back()?;
            let health = Health::clone(&last.health);
            Some((health, last.known_total, CounterSource::clone(&last.source)))
        };
        let (health, total, source) = known.flatten().or_else(last).map_or_else(
            || (Health::default(), None, None),
            |(health, total, source)| (health, total, Some(source)),
        );
        let tally = state.tally;
        let mut map = tally.to_map(state.started_at_ns);
        state.history_counts(&mut map);
        let backend = source.map_or(Value::Null, |source| Value::from(&*source.backend));
        map.insert("backend", backend);
        map.insert(
            "oom_flight_recorder_enabled",
            Value::Bool(state.bundle.is_some()),
        );
        map.insert("last_oom_dump_path", last_bundle.cloned());
        state.session_keys(&mut map);
        let current = current.filter(|_| health.status != Status::Unhealthy);
        let counter = |get: fn(&stormlog_format::Counters) -> Option<i64>| {
            Value::from(current.as_ref().and_then(|reading| get(&reading.counters)))
        };
        map.insert(
            "current_memory_allocated",
            counter(|counters| counters.allocator_allocated_bytes),
        );
        map.insert(
            "current_memory_reserved",
            counter(|counters| counters.allocator_reserved_bytes),
        );
        let used = current.and_then(|reading| reading.counters.device_used_bytes);
        let utilization = match (used, total) {
            (Some(used), Some(total)) if total > 0 => {
                Value::Float(used as f64 / total as f64 * 100.0)
            }
            _ => Value::Null,
        };
        map.insert("memory_utilization_percent", utilization);
        tally.averages(&mut map);
        map.extend(health.to_map());
        state.store_keys(&mut map);
        if let Some(duration) = state.duration() {
            tally.rates(duration.as_secs_f64(), &mut map);
        }
        map
    }

    /// The statistics of a session that Python's tracker of host memory returns, under the names
    /// that the tracker uses.
    pub fn host_statistics(&self) -> Map {
        let current = self.current().map(|reading| reading.level());
        let state = self.state();
        let tally = state.tally;
        let mut map = Map::new();
        map.insert("mode", "cpu");
        map.insert("total_events", signed(state.history.len()));
        map.insert("peak_memory", tally.peak);
        map.insert("current_memory_allocated", current);
        let duration = state.duration().unwrap_or_default();
        map.insert(
            "tracking_duration_seconds",
            Value::Float(duration.as_secs_f64()),
        );
        state.window_counts(&mut map);
        state.store_keys(&mut map);
        state.session_keys(&mut map);
        map.insert("alert_count", tally.alerts);
        map.insert("total_allocations", tally.allocations);
        map.insert("total_deallocations", tally.deallocations);
        map
    }
}

impl State {
    fn history_counts(&self, map: &mut Map) {
        let hour_ago = now_ns() - 3_600_000_000_000;
        let recent = self
            .history
            .iter()
            .filter(|event| event.timestamp_ns >= hour_ago);
        map.insert("total_events", signed(self.history.len()));
        map.insert("events_last_hour", signed(recent.count()));
        self.window_counts(map);
    }

    fn window_counts(&self, map: &mut Map) {
        map.insert(
            "history_window_limit_events",
            signed(self.history.capacity()),
        );
        map.insert("history_retained_events", signed(self.history.len()));
        map.insert("history_dropped_events", signed(self.history.dropped()));
    }

    fn session_keys(&self, map: &mut Map) {
        let session = self.session.as_ref();
        map.insert(
            "session_id",
            session.map(|session| session.session_id.clone()),
        );
        let status = session.map(|session| self.status_of(session));
        let status = status.map(|status| Text::from(status.as_str()));
        map.insert("session_status", status);
    }

    fn store_keys(&self, map: &mut Map) {
        let diagnostics = match &self.sink {
            Some(sink) => sink.diagnostics(),
            None => self.diagnostics,
        };
        map.extend(json::map_of(&diagnostics));
    }
}
