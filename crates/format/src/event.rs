//! The telemetry event: one sample or incident, with the memory counters at the time of the event.

use crate::json::{Layout, Writer, push_integer, push_text};
use crate::text::Text;
use crate::value::{Map, Value};

/// The newest record version that this crate reads and writes. A record whose counters are all
/// known is written as version 3, which stormlog 0.3.9 can read.
pub const LATEST_VERSION: i64 = Version::V4.number();

/// Keys of a record that identify its process in a distributed run. The keys for job, rank, local
/// rank and world size are all optional.
pub const IDENTITY_FIELDS: [&str; 4] = ["job_id", "rank", "local_rank", "world_size"];

/// Every key of a version 3 record, in the order in which a record is written.
pub const FIELDS: [&str; 23] = [
    "schema_version",
    "session_id",
    "timestamp_ns",
    "event_type",
    "collector",
    "sampling_interval_ms",
    "pid",
    "host",
    "job_id",
    "rank",
    "local_rank",
    "world_size",
    "device_id",
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "allocator_active_bytes",
    "allocator_inactive_bytes",
    "allocator_change_bytes",
    "device_used_bytes",
    "device_free_bytes",
    "device_total_bytes",
    "context",
    "metadata",
];

/// The integer columns of a table of events, such as a CSV export. A column that an older version
/// of the format named differently is listed under both names (`memory_allocated` became
/// `allocator_allocated_bytes`).
pub const INTEGER_COLUMNS: [&str; 20] = [
    "schema_version",
    "timestamp_ns",
    "sampling_interval_ms",
    "pid",
    "rank",
    "local_rank",
    "world_size",
    "device_id",
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "allocator_active_bytes",
    "allocator_inactive_bytes",
    "allocator_change_bytes",
    "device_used_bytes",
    "device_free_bytes",
    "device_total_bytes",
    "memory_allocated",
    "memory_reserved",
    "memory_change",
    "total_memory",
];

/// The version of the format of a record. Older records, of version 2 or without a version, are
/// read as version 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 3, in which four counters are always numbers: allocated bytes, reserved bytes, the
    /// change of the allocated bytes, and used bytes. If one of them is unknown, the record has a
    /// placeholder and names the counter in its metadata.
    V3,
    /// Version 4, in which these four counters may be null.
    V4,
}

impl Version {
    /// The number of the version, which a record has under the key `schema_version`.
    pub const fn number(self) -> i64 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }
}

/// One event of a session, as a record of a sink holds it. Counters that are `None` are unknown,
/// never zero.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "each field is a key of the record, described in docs/schemas"
)]
pub struct Event {
    pub version: Version,
    pub session_id: Text,
    pub timestamp_ns: i64,
    pub event_type: Text,
    pub collector: Text,
    pub sampling_interval_ms: i64,
    pub pid: i64,
    pub host: Text,
    pub job_id: Option<Text>,
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub device_id: i64,
    pub counters: Counters,
    pub context: Option<Text>,
    pub metadata: Map,
}

/// The memory counters of an event, in bytes; `None` for a counter that is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is a key of the record, described in docs/schemas"
)]
pub struct Counters {
    pub allocator_allocated_bytes: Option<i64>,
    pub allocator_reserved_bytes: Option<i64>,
    pub allocator_active_bytes: Option<i64>,
    pub allocator_inactive_bytes: Option<i64>,
    pub allocator_change_bytes: Option<i64>,
    pub device_used_bytes: Option<i64>,
    pub device_free_bytes: Option<i64>,
    pub device_total_bytes: Option<i64>,
}

impl Counters {
    /// Bytes in use: the allocator's counter, or the device's counter if the allocator's is
    /// unknown.
    pub fn level(&self) -> Option<i64> {
        self.allocator_allocated_bytes.or(self.device_used_bytes)
    }

    /// The names of the counters, in the order in which a record is written.
    pub const NAMES: [&'static str; 8] = [
        "allocator_allocated_bytes",
        "allocator_reserved_bytes",
        "allocator_active_bytes",
        "allocator_inactive_bytes",
        "allocator_change_bytes",
        "device_used_bytes",
        "device_free_bytes",
        "device_total_bytes",
    ];

    /// The values of the counters, in the order of [`NAMES`](Self::NAMES).
    pub fn values(&self) -> [Option<i64>; 8] {
        [
            self.allocator_allocated_bytes,
            self.allocator_reserved_bytes,
            self.allocator_active_bytes,
            self.allocator_inactive_bytes,
            self.allocator_change_bytes,
            self.device_used_bytes,
            self.device_free_bytes,
            self.device_total_bytes,
        ]
    }

    /// The names and values of the counters, in the order of [`NAMES`](Self::NAMES).
    pub fn named(&self) -> [(&'static str, Option<i64>); 8] {
        let values = self.values();
        std::array::from_fn(|index| (Self::NAMES[index], values[index]))
    }
}

impl Event {
    /// The event as a record, with its keys in the order in which a record is written.
    pub fn to_record(&self) -> Map {
        let mut entries: Vec<(Text, Value)> = Vec::with_capacity(FIELDS.len());
        let mut put = |key: &str, value: Value| entries.push((key.into(), value));
        put("schema_version", self.version.number().into());
        put("session_id", self.session_id.clone().into());
        put("timestamp_ns", self.timestamp_ns.into());
        put("event_type", self.event_type.clone().into());
        put("collector", self.collector.clone().into());
        put("sampling_interval_ms", self.sampling_interval_ms.into());
        put("pid", self.pid.into());
        put("host", self.host.clone().into());
        put("job_id", self.job_id.clone().into());
        put("rank", self.rank.into());
        put("local_rank", self.local_rank.into());
        put("world_size", self.world_size.into());
        put("device_id", self.device_id.into());
        for (name, value) in self.counters.named() {
            put(name, value.into());
        }
        put("context", self.context.clone().into());
        put("metadata", Value::Map(self.metadata.clone()));
        entries.into_iter().collect()
    }

    /// The event as stored in a segment: one line with sorted keys, without a newline.
    pub fn to_line(&self) -> String {
        let mut line = String::new();
        self.push_line(&mut line);
        line
    }

    /// Appends the event to `out` as a line of a segment, without a newline.
    pub fn push_line(&self, out: &mut String) {
        out.reserve(1024);
        let mut line = Line(out);
        let counters = &self.counters;
        line.counter(
            "{\"allocator_active_bytes\": ",
            counters.allocator_active_bytes,
        );
        line.counter(
            ", \"allocator_allocated_bytes\": ",
            counters.allocator_allocated_bytes,
        );
        line.counter(
            ", \"allocator_change_bytes\": ",
            counters.allocator_change_bytes,
        );
        line.counter(
            ", \"allocator_inactive_bytes\": ",
            counters.allocator_inactive_bytes,
        );
        line.counter(
            ", \"allocator_reserved_bytes\": ",
            counters.allocator_reserved_bytes,
        );
        line.text(", \"collector\": ", Some(&self.collector));
        line.text(", \"context\": ", self.context.as_ref());
        line.counter(", \"device_free_bytes\": ", counters.device_free_bytes);
        line.integer(", \"device_id\": ", self.device_id);
        line.counter(", \"device_total_bytes\": ", counters.device_total_bytes);
        line.counter(", \"device_used_bytes\": ", counters.device_used_bytes);
        line.text(", \"event_type\": ", Some(&self.event_type));
        line.text(", \"host\": ", Some(&self.host));
        line.text(", \"job_id\": ", self.job_id.as_ref());
        line.integer(", \"local_rank\": ", self.local_rank);
        line.0.push_str(", \"metadata\": ");
        Writer::new(Layout::Line)
            .sorted()
            .push_map(line.0, &self.metadata);
        line.integer(", \"pid\": ", self.pid);
        line.integer(", \"rank\": ", self.rank);
        line.integer(", \"sampling_interval_ms\": ", self.sampling_interval_ms);
        line.integer(", \"schema_version\": ", self.version.number());
        line.text(", \"session_id\": ", Some(&self.session_id));
        line.integer(", \"timestamp_ns\": ", self.timestamp_ns);
        line.integer(", \"world_size\": ", self.world_size);
        line.0.push('}');
    }
}

/// A line under construction. Each method of a line writes a separator, a key and a value of a
/// record. The methods of a line are inlined, so that separator and key are copied as constants.
struct Line<'a>(&'a mut String);

impl Line<'_> {
    #[inline]
    fn integer(&mut self, prefix: &str, value: i64) {
        self.0.push_str(prefix);
        push_integer(self.0, value);
    }

    #[inline]
    fn counter(&mut self, prefix: &str, value: Option<i64>) {
        match value {
            Some(value) => self.integer(prefix, value),
            None => self.null(prefix),
        }
    }

    #[inline]
    fn text(&mut self, prefix: &str, value: Option<&Text>) {
        match value {
            Some(value) => {
                self.0.push_str(prefix);
                push_text(self.0, value);
            }
            None => self.null(prefix),
        }
    }

    #[inline]
    fn null(&mut self, prefix: &str) {
        self.0.push_str(prefix);
        self.0.push_str("null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_record_with_sorted_keys() {
        let mut metadata = Map::new();
        metadata.insert("z", Value::Float(0.5));
        metadata.insert("a", Value::List(vec![Value::Null]));
        let event = Event {
            version: Version::V4,
            session_id: "s\u{e9}".into(),
            timestamp_ns: 5,
            event_type: "sample".into(),
            collector: "c".into(),
            sampling_interval_ms: 100,
            pid: -1,
            host: "h \"quoted\"".into(),
            job_id: None,
            rank: 1,
            local_rank: 2,
            world_size: 3,
            device_id: -1,
            counters: Counters {
                allocator_allocated_bytes: Some(i64::MAX),
                allocator_change_bytes: Some(-7),
                ..Counters::default()
            },
            context: Some("".into()),
            metadata,
        };
        let record = event.to_record();
        let sorted = Writer::new(Layout::Line).sorted().map_to_string(&record);
        assert_eq!(event.to_line(), sorted);
    }
}
