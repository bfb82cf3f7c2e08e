//! The manifest of a sink: which sessions and segments a directory holds.

use crate::number::{IntegerError, python_int};
use crate::session::SessionSummary;
use crate::text::Text;
use crate::value::{Map, Value};

/// The format name in a sink's manifest.
pub const SINK_FORMAT: &str = "stormlog.append_only_telemetry_sink";

/// The manifest version that we write.
pub const MANIFEST_VERSION: i64 = 2;

/// What a sink's `manifest.json` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The version of the manifest; 1 knows no sessions.
    pub schema_version: i64,
    /// The format name.
    pub format: Text,
    /// The sessions recorded here.
    pub sessions: Vec<SessionSummary>,
    /// The segment files.
    pub segments: Vec<Segment>,
    /// Events that could not be recorded; the key is there only when it is not zero.
    pub dropped_event_count: i64,
    /// What was left out because it made no sense, for a warning.
    pub ignored: Vec<String>,
}

/// One segment file of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// File name inside the sink.
    pub filename: Text,
    /// Number of events in it.
    pub event_count: i64,
    /// Size in bytes.
    pub size_bytes: i64,
    /// Whether nothing more is written to it.
    pub closed: bool,
    /// The session that it belongs to.
    pub session_id: Option<Text>,
}

impl Manifest {
    /// Reads a manifest leniently: entries that make no sense are left out and named in
    /// [`ignored`](Self::ignored). `None` when the document is no object.
    pub fn from_value(document: &Value) -> Option<Self> {
        let map = document.as_map()?;
        let version = map
            .get("schema_version")
            .and_then(|value| python_int(value).ok());
        let schema_version = version.unwrap_or(1).max(1);
        let format = match map.get("format") {
            Some(Value::Text(text)) if !text.is_blank() => text.clone(),
            _ => SINK_FORMAT.into(),
        };
        let mut ignored = Vec::new();
        let mut entries = |key: &str| match map.get(key) {
            Some(Value::List(items)) => items.clone(),
            None | Some(Value::Null) => Vec::new(),
            Some(_) => {
                ignored.push(format!("'{key}' is not a list"));
                Vec::new()
            }
        };
        let (sessions, segments) = (entries("sessions"), entries("segments"));
        let mut keep_or_note = |what: &str, place: usize, result: Result<(), String>| {
            if let Err(reason) = result {
                ignored.push(format!("{what} {place}: {reason}"));
            }
        };
        let mut read_sessions = Vec::new();
        for (place, entry) in sessions.iter().enumerate().filter(|_| schema_version >= 2) {
            let summary = match entry.as_map() {
                None => Err("not an object".to_owned()),
                Some(map) => SessionSummary::from_map(map).map_err(|error| error.to_string()),
            };
            keep_or_note(
                "session",
                place,
                summary.map(|summary| read_sessions.push(summary)),
            );
        }
        let mut read_segments = Vec::new();
        for (place, entry) in segments.iter().enumerate() {
            let segment = entry
                .as_map()
                .ok_or_else(|| "not an object".to_owned())
                .and_then(Segment::from_map);
            keep_or_note(
                "segment",
                place,
                segment.map(|segment| read_segments.push(segment)),
            );
        }
        Some(Self {
            schema_version,
            format,
            sessions: read_sessions,
            segments: read_segments,
            dropped_event_count: map
                .get("dropped_event_count")
                .and_then(|value| python_int(value).ok())
                .map_or(0, |count| count.max(0)),
            ignored,
        })
    }

    /// The manifest as it is written, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("schema_version", self.schema_version);
        map.insert("format", self.format.clone());
        let sessions = self
            .sessions
            .iter()
            .map(|session| Value::Map(session.to_map()));
        map.insert("sessions", Value::List(sessions.collect()));
        let segments = self
            .segments
            .iter()
            .map(|segment| Value::Map(segment.to_map()));
        map.insert("segments", Value::List(segments.collect()));
        if self.dropped_event_count > 0 {
            map.insert("dropped_event_count", self.dropped_event_count);
        }
        map
    }
}

impl Segment {
    fn from_map(map: &Map) -> Result<Self, String> {
        let Some(Value::Text(filename)) = map.get("filename") else {
            return Err("filename must be a string".into());
        };
        // What is no count counts as zero; only a number that no file can have spoils the entry.
        let count = |key: &str| match map.get(key).map(python_int) {
            Some(Ok(count)) => Ok(count.max(0)),
            Some(Err(IntegerError::TooLarge)) => Err(format!("{key} is out of range")),
            _ => Ok(0),
        };
        Ok(Self {
            filename: filename.clone(),
            event_count: count("event_count")?,
            size_bytes: count("size_bytes")?,
            closed: map.get("closed").is_some_and(is_truthy),
            session_id: map.get("session_id").and_then(Value::as_text).cloned(),
        })
    }

    /// The entry as it is written, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("filename", self.filename.clone());
        map.insert("event_count", self.event_count);
        map.insert("size_bytes", self.size_bytes);
        map.insert("closed", Value::Bool(self.closed));
        map.insert("session_id", self.session_id.clone());
        map
    }
}

/// Whether Python counts the value as true.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Int(value) => *value != 0,
        Value::Float(value) => *value != 0.0,
        Value::Text(text) => !text.as_bytes().is_empty(),
        Value::List(items) => !items.is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Big(_) | Value::Opaque(_) => true,
    }
}
