//! The manifest of a sink, which lists the sessions and segments in its directory.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::number::{IntegerError, python_int};
use crate::session::SessionSummary;
use crate::sink_names::SinkNames;
use crate::text::Text;
use crate::value::{Map, Value};

/// The value of the key `format` in a sink's manifest.
pub const SINK_FORMAT: &str = "stormlog.append_only_telemetry_sink";

/// The version of the manifest that Stormlog writes.
pub const MANIFEST_VERSION: i64 = 2;

/// The contents of `manifest.json` in a sink, the directory of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// The version of the manifest; manifests of version 1 list no sessions.
    pub schema_version: i64,
    /// The name of the format, which is [`SINK_FORMAT`] if the manifest does not contain one.
    pub format: Text,
    /// The sessions recorded in the sink.
    #[serde(serialize_with = "with_recorders")]
    pub sessions: Vec<SessionSummary>,
    /// The segments: the files of the sink that contain the events.
    pub segments: Vec<Segment>,
    /// How many events could not be recorded. The key `dropped_event_count` is written only when
    /// the number is not zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_event_count: i64,
    /// The size in bytes to which the sink is thinned; zero for a sink that is not thinned. The key
    /// `thinning_budget_bytes` is written only when the size is not zero. A recorder that
    /// continues the sink keeps the budget, so that retention does not delete what thinning kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinning_budget_bytes: i64,
    /// The samples that thinning removed; the key `thinned` is written only when some were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinned: Option<Thinned>,
    /// How many segments and events were deleted from a thinned sink. The key `pruned` is written
    /// only when segments were deleted. Sinks that are not thinned do not have the key `pruned`,
    /// because stormlog 0.3.9 does not write it. For sinks that are not thinned, the deleted
    /// segments are derived from the segment numbers, see
    /// [`pruned_segments`](Self::pruned_segments).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
    /// How many sessions were removed from the manifest's list because none of their segments is
    /// left. The key `pruned_sessions` is written only when the number is not zero.
    #[serde(skip_serializing_if = "is_zero")]
    pub pruned_sessions: i64,
    /// A rewrite of segments that is about to happen or was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewriting: Option<Rewriting>,
    /// Names of segments whose lines a rewrite has moved to another segment, but whose files may
    /// still exist. The list is not in the manifest file: readers fill it in to skip these files.
    #[serde(skip)]
    pub replaced: Vec<Text>,
    /// Descriptions of invalid entries that were left out when the manifest was read, for a
    /// warning.
    #[serde(skip)]
    pub ignored: Vec<String>,
}

/// What thinning removed from a sink: samples that were neither the first, the last, the lowest nor
/// the highest of their interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Thinned {
    /// Number of removed samples.
    pub samples_dropped: i64,
    /// Number of segments that were thinned; a segment that is thinned again is not counted again.
    pub segments: i64,
    /// Samples up to this time may be sparse.
    pub until_ns: i64,
}

/// What was deleted from a sink: whole segments, the oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pruned {
    /// Number of deleted segments.
    pub segments: i64,
    /// Number of events in the deleted segments, if known.
    pub events: Option<i64>,
}

/// A rewrite of one or more segments into one segment. The manifest announces a rewrite of segments
/// before any file is changed. A rewrite has happened if and only if the file of its segment has
/// the announced size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rewriting {
    /// The segment whose file the rewrite replaces by a new file.
    pub segment: Text,
    /// The other segments whose lines move into the new file. Their own files are deleted
    /// afterwards.
    pub replaces: Vec<Text>,
    /// The number of events in the segment after the rewrite.
    pub event_count: i64,
    /// The size of the segment in bytes after the rewrite.
    pub size_bytes: i64,
    /// The time interval of the segment after the rewrite, see [`Segment::thinned_interval_ns`].
    pub thinned_interval_ns: i64,
    /// The samples that thinning removes in the rewrite.
    #[serde(flatten)]
    pub thinned: Thinned,
}

impl Thinned {
    /// Adds the counts of removed samples and thinned segments of both values, and keeps the later
    /// `until_ns`.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            samples_dropped: self.samples_dropped.saturating_add(other.samples_dropped),
            segments: self.segments.saturating_add(other.segments),
            until_ns: self.until_ns.max(other.until_ns),
        }
    }

    fn from_map(map: &Map) -> Self {
        Self {
            samples_dropped: count_in(map, "samples_dropped"),
            segments: count_in(map, "segments"),
            until_ns: count_in(map, "until_ns"),
        }
    }

    /// Returns the value if samples were removed, otherwise `None`.
    pub fn reported(self) -> Option<Self> {
        (self.samples_dropped > 0).then_some(self)
    }
}

impl Pruned {
    fn from_map(map: &Map) -> Self {
        Self {
            segments: count_in(map, "segments"),
            events: Some(count_in(map, "events")),
        }
    }

    /// Adds the counts of deleted segments and of their events; the sum of the events is known only
    /// if both numbers of events are known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let events = |pruned: Self| pruned.reported().map_or(Some(0), |pruned| pruned.events);
        let both = events(self).zip(events(other));
        Self {
            segments: self.segments.saturating_add(other.segments),
            events: both.map(|(ours, theirs)| ours.saturating_add(theirs)),
        }
    }

    /// Returns the value if segments were deleted, otherwise `None`.
    pub fn reported(self) -> Option<Self> {
        (self.segments > 0).then_some(self)
    }
}

impl Rewriting {
    fn from_map(map: &Map) -> Option<Self> {
        let replaces = map.list("replaces").iter().filter_map(Value::as_text);
        Some(Self {
            segment: map.text("segment")?.clone(),
            replaces: replaces.cloned().collect(),
            event_count: count_in(map, "event_count"),
            size_bytes: count_in(map, "size_bytes"),
            thinned_interval_ns: count_in(map, "thinned_interval_ns"),
            thinned: Thinned::from_map(map),
        })
    }
}

/// Reads a count from the manifest; a missing or invalid value is read as zero. This function is
/// for keys that stormlog 0.3.9 does not write.
fn count_in(map: &Map, key: &str) -> i64 {
    let count = map.get(key).and_then(|value| python_int(value).ok());
    count.map_or(0, |count| count.max(0))
}

/// A segment: one of the files of a sink that contain its events, one event per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The file name of the segment inside the sink.
    pub filename: Text,
    /// The number of events in the segment.
    pub event_count: i64,
    /// The size of the segment's file in bytes.
    pub size_bytes: i64,
    /// Whether the segment is complete, so that no more events are appended.
    pub closed: bool,
    /// The id of the session whose events are in the segment.
    pub session_id: Option<Text>,
    /// The length, in nanoseconds, of the time intervals to which the segment was thinned; only
    /// some samples of each interval are left. The length is 1 for a segment into which the lines
    /// of other segments were merged without removing samples. The length is zero for a segment
    /// that thinning has not processed; the key is then not written.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinned_interval_ns: i64,
}

impl Manifest {
    /// Parses a manifest like [`from_map`](Self::from_map); `None` when the document is not a JSON
    /// object.
    pub fn from_value(document: &Value) -> Option<Self> {
        document.as_map().map(Self::from_map)
    }

    /// Parses a manifest leniently. Invalid entries of the manifest are left out and listed in
    /// [`ignored`](Self::ignored).
    pub fn from_map(map: &Map) -> Self {
        let version = map
            .get("schema_version")
            .and_then(|value| python_int(value).ok());
        let schema_version = version.unwrap_or(1).max(1);
        let format = match map.get("format") {
            Some(Value::Text(text)) if !text.is_blank() => text.clone(),
            _ => SINK_FORMAT.into(),
        };
        let mut ignored = Vec::new();
        for key in ["sessions", "segments"] {
            if !matches!(map.get(key), None | Some(Value::Null | Value::List(_))) {
                ignored.push(format!("'{key}' is not a list"));
            }
        }
        let sessions = if schema_version >= 2 {
            map.list("sessions")
        } else {
            &[]
        };
        let summary = |map: &Map| SessionSummary::from_map(map).map_err(|error| error.to_string());
        Self {
            schema_version,
            format,
            sessions: read_entries(sessions, "session", summary, &mut ignored),
            segments: read_entries(
                map.list("segments"),
                "segment",
                Segment::from_map,
                &mut ignored,
            ),
            dropped_event_count: count_in(map, "dropped_event_count"),
            thinning_budget_bytes: count_in(map, "thinning_budget_bytes"),
            thinned: map
                .object("thinned")
                .and_then(|map| Thinned::from_map(map).reported()),
            pruned: map
                .object("pruned")
                .and_then(|map| Pruned::from_map(map).reported()),
            pruned_sessions: count_in(map, "pruned_sessions"),
            rewriting: map.object("rewriting").and_then(Rewriting::from_map),
            replaced: Vec::new(),
            ignored,
        }
    }

    /// How many segments and events were deleted, as far as the manifest shows. Segments are
    /// numbered from 1, so in a sink that is not thinned the missing numbers are those of deleted
    /// segments. The argument `unlisted` gives the names of segments in the directory that the
    /// manifest does not list.
    pub fn pruned_segments<'n>(&self, unlisted: impl Iterator<Item = &'n str>) -> Option<Pruned> {
        if self.pruned.is_some() || self.thinning_budget_bytes > 0 {
            return self.pruned;
        }
        let listed = self.segments.iter();
        let index = |name: &str| SinkNames::of_segment(name)?.segment_index(name);
        let listed = listed.filter_map(|segment| index(segment.filename.as_str()?));
        let indices: BTreeSet<u64> = listed.chain(unlisted.filter_map(index)).collect();
        let gone = indices.last()?.saturating_sub(indices.len() as u64);
        let pruned = Pruned {
            segments: i64::try_from(gone).ok()?,
            events: None,
        };
        pruned.reported()
    }

    /// Removes the announced rewrite of segments from the manifest. If the rewrite has happened,
    /// that is, if the segment on disk has the announced size, the function updates the list of
    /// segments and returns the segments that the rewrite replaced, whose files may still exist.
    /// Otherwise the list of segments stays unchanged.
    pub fn settle_rewrite(&mut self, size_of: impl Fn(&Text) -> Option<u64>) -> Vec<Text> {
        let Some(rewriting) = self.rewriting.take() else {
            return Vec::new();
        };
        let size = u64::try_from(rewriting.size_bytes).ok();
        if size.is_none() || size_of(&rewriting.segment) != size {
            return Vec::new();
        }
        let replaced = &rewriting.replaces;
        self.segments
            .retain(|segment| !replaced.contains(&segment.filename));
        let entries = self.segments.iter_mut();
        for segment in entries.filter(|segment| segment.filename == rewriting.segment) {
            segment.event_count = rewriting.event_count;
            segment.size_bytes = rewriting.size_bytes;
            segment.thinned_interval_ns = rewriting.thinned_interval_ns;
        }
        let thinned = self.thinned.unwrap_or_default().plus(rewriting.thinned);
        self.thinned = thinned.reported();
        rewriting.replaces
    }
}

/// Serializes session summaries for a manifest: a running session also names the process that
/// records it.
fn with_recorders<S: Serializer>(
    sessions: &[SessionSummary],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sessions.iter().map(SessionSummary::to_manifest_map))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

/// Reads the entries of a list. Invalid entries are left out and described in `ignored`; `what` is
/// the name of an entry there.
fn read_entries<T>(
    entries: &[Value],
    what: &str,
    read: impl Fn(&Map) -> Result<T, String>,
    ignored: &mut Vec<String>,
) -> Vec<T> {
    let mut valid = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let map = entry.as_map().ok_or_else(|| "not an object".to_owned());
        match map.and_then(&read) {
            Ok(entry) => valid.push(entry),
            Err(reason) => ignored.push(format!("{what} {index}: {reason}")),
        }
    }
    valid
}

impl Segment {
    fn from_map(map: &Map) -> Result<Self, String> {
        let Some(Value::Text(filename)) = map.get("filename") else {
            return Err("filename must be a string".into());
        };
        // An invalid count of a segment is read as zero; only a number that is too large for any
        // file makes the segment's entry invalid.
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
            session_id: map.text("session_id").cloned(),
            thinned_interval_ns: count_in(map, "thinned_interval_ns"),
        })
    }
}

/// Whether Python would treat the value as true in a condition.
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
