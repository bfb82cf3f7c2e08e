//! An event as the recorder keeps it in memory, and the records that are made from it.

use std::sync::Arc;

use stormlog_format::classify::ALERT_TYPES;
use stormlog_format::{
    Counters, DistributedIdentity, Event, Map, Text, Value, Version, metadata_keys,
};

use crate::clock::seconds;
use crate::collect::CounterSource;
use crate::collect::health::Health;

/// One event of a session, as the recorder keeps it in memory: a sample, an alert, or the start of
/// a phase, for example.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackedEvent {
    /// When the counters were read, nanoseconds since the epoch.
    pub timestamp_ns: i64,
    /// The type of the event, such as `sample`.
    pub event_type: Text,
    /// The number of the device, -1 for the host.
    pub device_id: i64,
    /// The memory counters of the device or process at the time of the event.
    pub counters: Counters,
    /// A message for people, such as `WARNING: Memory usage at 81.0%`.
    pub context: Option<Text>,
    /// Metadata of this event, without the health of its collector.
    pub metadata: Map,
    /// The health of the collector; all events share one copy until the health changes.
    pub health: Arc<Health>,
    /// The collector that the counters come from.
    pub source: Arc<CounterSource>,
    /// The device's total memory from an earlier reading, used when this event has no total.
    pub known_total: Option<i64>,
    /// Whether the event leaves out what the collector supports, and its health while it works
    /// without problems; the start event of the session contains both.
    pub is_brief: bool,
}

/// The fields that have the same value in all events of a session.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The id of the session.
    pub session_id: Text,
    /// The job id, rank, local rank and world size of the recorded process.
    pub identity: DistributedIdentity,
    /// The pid of the recorded process.
    pub pid: i64,
    /// The name of the machine on which the session is recorded.
    pub host: Text,
    /// The sampling interval in milliseconds.
    pub sampling_interval_ms: i64,
}

impl TrackedEvent {
    /// Whether the event is passed to alert listeners and counted as an alert.
    pub fn is_alert(&self) -> bool {
        ALERT_TYPES.iter().any(|name| self.event_type == *name)
    }

    /// The metadata of the event, with the health of its collector unless the event leaves it out.
    pub fn full_metadata(&self) -> Map {
        let mut metadata = self.metadata.clone();
        // Events of host memory contain the collector's health only when the collector does not
        // work, as in earlier versions.
        let is_silent = self.source.is_host() || self.is_brief;
        if !is_silent || *self.health != Health::default() {
            metadata.extend(self.health.to_map());
        }
        metadata
    }

    /// The event in the form in which a sink writes it to disk.
    pub fn to_event(&self, origin: &Origin) -> Event {
        let mut metadata = self.full_metadata();
        if !self.source.is_host() {
            metadata.insert(metadata_keys::BACKEND, &*self.source.backend);
        }
        if !self.source.is_host() && !self.is_brief {
            metadata.insert(
                "supports_device_total",
                Value::Bool(self.source.supports_device_total),
            );
            metadata.insert(
                "supports_device_free",
                Value::Bool(self.source.supports_device_free),
            );
            let sampling_source = self.source.sampling_source.as_deref();
            metadata.insert("sampling_source", sampling_source.map(Text::from));
        }
        let (version, counters) = self.recorded_counters(&mut metadata);
        Event {
            version,
            session_id: origin.session_id.clone(),
            timestamp_ns: self.timestamp_ns,
            event_type: self.event_type.clone(),
            collector: (*self.source.collector).into(),
            sampling_interval_ms: origin.sampling_interval_ms,
            pid: origin.pid,
            host: origin.host.clone(),
            job_id: origin.identity.job_id.clone(),
            rank: origin.identity.rank,
            local_rank: origin.identity.local_rank,
            world_size: origin.identity.world_size,
            device_id: self.device_id,
            counters,
            context: self.context.clone(),
            metadata,
        }
    }

    /// The counters in the form that a record requires, and the version of the record. A device
    /// that is read from outside the process has no allocator counters, so its record has version
    /// 4, in which they may be missing. All other records have version 3, in which they must be
    /// numbers: an unknown counter, such as every counter before the first reading, is replaced by
    /// a known one or zero, and its name is listed in the metadata.
    fn recorded_counters(&self, metadata: &mut Map) -> (Version, Counters) {
        let mut counters = self.counters;
        let partial = |name: &str| self.health.partial_fields.iter().any(|field| field == name);
        if counters.device_total_bytes.is_none() && !partial("device_total_bytes") {
            let known = self.known_total;
            counters.device_total_bytes =
                known.filter(|total| counters.device_used_bytes.is_none_or(|used| used <= *total));
        }
        if counters.allocator_allocated_bytes.is_none() && counters.device_used_bytes.is_some() {
            let mut capabilities = Map::new();
            capabilities.insert("allocator", Value::Bool(false));
            capabilities.insert("device", Value::Bool(true));
            metadata.insert("memory_capabilities", Value::Map(capabilities));
            counters.allocator_change_bytes = None;
            return (Version::V4, counters);
        }
        list_unknown(metadata, &self.unknown_fields());
        let allocated = counters.allocator_allocated_bytes.unwrap_or(0);
        let reserved = counters.allocator_reserved_bytes.unwrap_or(allocated);
        counters.allocator_allocated_bytes = Some(allocated);
        counters.allocator_reserved_bytes = Some(reserved);
        counters.allocator_change_bytes = Some(counters.allocator_change_bytes.unwrap_or(0));
        let used = counters
            .device_used_bytes
            .unwrap_or(allocated.max(reserved));
        counters.device_used_bytes = Some(used);
        // The allocator and the device are read one after the other and may disagree for a moment,
        // but a record is invalid when its used bytes exceed its total bytes.
        counters.device_total_bytes = counters.device_total_bytes.map(|total| total.max(used));
        (Version::V3, counters)
    }

    /// Names of the counters that are unknown, but for which a record of version 3 must contain a
    /// number. Host memory has no separate counters of reserved and used bytes: they equal the
    /// allocated bytes, so they are known whenever the allocated bytes are.
    fn unknown_fields(&self) -> Vec<&'static str> {
        let counters = &self.counters;
        let is_listed = counters.allocator_allocated_bytes.is_none() || !self.source.is_host();
        let fields = [
            (
                "allocator_allocated_bytes",
                counters.allocator_allocated_bytes,
            ),
            (
                "allocator_reserved_bytes",
                counters.allocator_reserved_bytes,
            ),
            ("device_used_bytes", counters.device_used_bytes),
        ];
        let unknown = fields.iter().filter(|(_, value)| value.is_none());
        let names = unknown.map(|(name, _)| *name);
        names.filter(|_| is_listed).collect()
    }

    /// The event as an out-of-memory bundle contains it: unknown counters are left out and their
    /// names listed, because a reader would take a zero for a measurement.
    pub fn to_bundle_payload(&self, origin: &Origin) -> Map {
        let counters = &self.counters;
        let mut payload = self.to_payload(origin);
        let fields = [
            ("memory_allocated", counters.allocator_allocated_bytes),
            ("memory_reserved", counters.allocator_reserved_bytes),
            ("memory_change", counters.allocator_change_bytes),
        ];
        for (name, value) in fields {
            if value.is_none() {
                payload.remove(name);
            }
        }
        let unknown = self.unknown_fields();
        if !unknown.is_empty() {
            let mut metadata = self.full_metadata();
            list_unknown(&mut metadata, &unknown);
            payload.insert("metadata", Value::Map(metadata));
        }
        payload
    }

    /// The event with the field names of stormlog 0.3.9's trackers, whose counters are always
    /// numbers, so an unknown counter is zero.
    pub fn to_payload(&self, origin: &Origin) -> Map {
        let counters = &self.counters;
        let identity = &origin.identity;
        let mut map = Map::new();
        map.insert("timestamp", Value::Float(seconds(self.timestamp_ns)));
        map.insert("event_type", self.event_type.clone());
        map.insert("session_id", origin.session_id.clone());
        map.insert(
            "memory_allocated",
            counters.allocator_allocated_bytes.unwrap_or(0),
        );
        map.insert(
            "memory_reserved",
            counters.allocator_reserved_bytes.unwrap_or(0),
        );
        map.insert(
            "memory_change",
            counters.allocator_change_bytes.unwrap_or(0),
        );
        map.insert("device_id", self.device_id);
        map.insert("context", self.context.clone());
        map.insert("job_id", identity.job_id.clone());
        map.insert("rank", identity.rank);
        map.insert("local_rank", identity.local_rank);
        map.insert("world_size", identity.world_size);
        map.insert("metadata", Value::Map(self.full_metadata()));
        map.insert("active_memory", counters.allocator_active_bytes);
        map.insert("inactive_memory", counters.allocator_inactive_bytes);
        map.insert("device_used", counters.device_used_bytes);
        map.insert("device_free", counters.device_free_bytes);
        map.insert("device_total", counters.device_total_bytes);
        map.insert("backend", &*self.source.backend);
        map
    }
}

/// Adds the names of unknown counters to the list `collector_partial_fields` in the metadata.
fn list_unknown(metadata: &mut Map, unknown: &[&'static str]) {
    if unknown.is_empty() {
        return;
    }
    let mut names = metadata
        .list(metadata_keys::COLLECTOR_PARTIAL_FIELDS)
        .to_vec();
    for name in unknown {
        let name = Value::from(*name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    metadata.insert("telemetry_partial", Value::Bool(true));
    metadata.insert(metadata_keys::COLLECTOR_PARTIAL_FIELDS, Value::List(names));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: CounterSource, counters: Counters) -> TrackedEvent {
        TrackedEvent {
            timestamp_ns: 1,
            event_type: "sample".into(),
            device_id: 0,
            counters,
            context: None,
            metadata: Map::new(),
            health: Arc::default(),
            source: Arc::new(source),
            known_total: None,
            is_brief: true,
        }
    }

    fn of_device(counters: Counters) -> TrackedEvent {
        let mut source = CounterSource::host();
        source.backend = "cuda".into();
        event(source, counters)
    }

    fn origin() -> Origin {
        Origin {
            session_id: "s".into(),
            identity: DistributedIdentity {
                job_id: None,
                rank: 0,
                local_rank: 0,
                world_size: 1,
            },
            pid: 1,
            host: "h".into(),
            sampling_interval_ms: 100,
        }
    }

    fn listed(metadata: &Map) -> Vec<String> {
        match metadata.get(metadata_keys::COLLECTOR_PARTIAL_FIELDS) {
            Some(Value::List(names)) => {
                let names = names.iter().filter_map(Value::as_text);
                names.map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_record_lists_the_counters_that_stand_in_for_unknown_ones() {
        let event = of_device(Counters {
            allocator_allocated_bytes: Some(5),
            ..Counters::default()
        });
        let record = event.to_event(&origin());
        assert_eq!(record.version, Version::V3);
        assert_eq!(
            listed(&record.metadata),
            ["allocator_reserved_bytes", "device_used_bytes"]
        );
        let nothing = of_device(Counters::default()).to_event(&origin());
        assert_eq!(listed(&nothing.metadata).len(), 3);
    }

    #[test]
    fn what_a_process_allocated_is_what_it_uses() {
        let counters = Counters {
            allocator_allocated_bytes: Some(5),
            ..Counters::default()
        };
        let record = event(CounterSource::host(), counters).to_event(&origin());
        assert_eq!(record.counters.device_used_bytes, Some(5));
        assert!(listed(&record.metadata).is_empty());
    }

    #[test]
    fn a_bundle_leaves_unknown_counters_out() {
        let event = of_device(Counters {
            device_used_bytes: Some(9),
            ..Counters::default()
        });
        let payload = event.to_bundle_payload(&origin());
        for name in ["memory_allocated", "memory_reserved", "memory_change"] {
            assert!(!payload.contains(name), "{name}");
        }
        assert_eq!(payload.get("device_used"), Some(&Value::Int(9)));
        let metadata = payload.object("metadata").unwrap();
        let unknown = ["allocator_allocated_bytes", "allocator_reserved_bytes"];
        assert_eq!(listed(metadata), unknown);
        // In the events of stormlog 0.3.9's trackers, counters are always numbers.
        let payload = event.to_payload(&origin());
        assert_eq!(payload.get("memory_allocated"), Some(&Value::Int(0)));
    }
}
