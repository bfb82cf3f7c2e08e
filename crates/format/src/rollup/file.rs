//! The contents of `rollups.json` as types, and their conversion to text.
#![expect(
    missing_docs,
    reason = "each field is a key of the JSON file, described in docs/run-format.md"
)]

use serde::Serialize;

use super::{ROLLUP_FORMAT, ROLLUP_VERSION};
use crate::json::{Layout, Writer, by_name, map_of};
use crate::manifest::Manifest;
use crate::session::SessionSummary;
use crate::text::Text;
use crate::value::Map;

/// The contents of `rollups.json`: the rollups of all sessions in a sink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RollupFile {
    /// When the rollup file was created, in nanoseconds since the Unix epoch.
    pub generated_at_ns: i64,
    /// The path of the manifest from which the rollups were created.
    pub source_manifest: Option<Text>,
    /// The version of the manifest from which the rollups were created.
    pub source_manifest_schema_version: Option<i64>,
    /// The length of a time window, in nanoseconds.
    pub window_duration_ns: i64,
    /// The segments whose events are included in the rollups.
    pub coverage: Coverage,
    /// The rollups of the sessions, ordered by the start and the id of the session.
    pub sessions: Vec<SessionRollup>,
}

/// The segments of a sink whose events are included in the rollups (retained), and how much was
/// deleted before (pruned).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub retained_segment_filenames: Vec<Text>,
    pub retained_segment_count: i64,
    pub retained_event_count: i64,
    pub retained_bytes: i64,
    pub pruned_segment_count: Option<i64>,
    pub pruned_bytes: Option<i64>,
}

/// The totals and peaks of one session, and of its ranks and time windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionRollup {
    pub session: SessionSummary,
    pub event_count: i64,
    pub sample_count: i64,
    pub first_timestamp_ns: Option<i64>,
    pub last_timestamp_ns: Option<i64>,
    pub source_count: i64,
    pub sources_loaded: Vec<Text>,
    pub warnings: Vec<Text>,
    pub counters: CounterSummary,
    pub alerts: AlertSummary,
    pub collector_health: HealthSummary,
    pub oom: OomSummary,
    pub ranks: Vec<RankRollup>,
    pub windows: Vec<WindowRollup>,
}

/// The highest value of a counter, with the time, rank and device of the first event that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    pub value: Option<i64>,
    pub timestamp_ns: Option<i64>,
    pub rank: Option<i64>,
    pub device_id: Option<i64>,
}

/// The highest values of three memory counters in a session, a rank or a time window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CounterSummary {
    pub allocator_allocated_bytes: Peak,
    pub allocator_reserved_bytes: Peak,
    pub device_used_bytes: Peak,
}

/// The number of alerts, by severity and by event type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlertSummary {
    pub total_count: i64,
    #[serde(serialize_with = "by_name")]
    pub severity_counts: Vec<(Text, i64)>,
    #[serde(serialize_with = "by_name")]
    pub event_type_counts: Vec<(Text, i64)>,
}

/// How often and how long the collectors of a session could not read all of their counters, and
/// their last known health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthSummary {
    pub transition_count: i64,
    pub degraded_count: i64,
    pub recovered_count: i64,
    pub degraded_time_ns: i64,
    pub last_status: Option<Text>,
}

/// The number of out-of-memory errors in a session, and of the OOM bundles that were written for
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OomSummary {
    pub marker_count: i64,
    pub event_count: i64,
    pub bundle_path_count: i64,
}

/// The totals and peaks of one rank of a session. The hidden gap is the used device memory minus
/// the memory that the allocator has reserved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankRollup {
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub event_count: i64,
    pub sample_count: i64,
    pub first_timestamp_ns: Option<i64>,
    pub last_timestamp_ns: Option<i64>,
    pub counters: CounterSummary,
    pub hidden_gap_first_bytes: Option<i64>,
    pub hidden_gap_latest_bytes: Option<i64>,
    pub hidden_gap_peak_bytes: Option<i64>,
    pub hidden_gap_delta_bytes: Option<i64>,
    pub hidden_gap_drift_bytes_per_second: Option<f64>,
}

/// The totals and peaks of one time window of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowRollup {
    pub index: i64,
    pub start_ns: i64,
    pub end_ns: i64,
    pub event_count: i64,
    pub sample_count: i64,
    pub rank_count: i64,
    pub counters: CounterSummary,
    pub alert_count: i64,
    pub collector_transition_count: i64,
    pub oom_count: i64,
}

impl RollupFile {
    /// Whether the rollup file matches the manifest: both list the same segments with the same
    /// numbers of events and bytes.
    pub fn matches(&self, manifest: &Manifest) -> bool {
        let listed = Coverage::of(Some(manifest), None, None);
        self.source_manifest_schema_version == Some(manifest.schema_version)
            && self.coverage.retained_segment_filenames == listed.retained_segment_filenames
            && self.coverage.retained_event_count == listed.retained_event_count
            && self.coverage.retained_bytes == listed.retained_bytes
    }

    /// The text of the rollup file: sorted keys, indented, with a final newline.
    pub fn to_text(&self) -> String {
        let writer = Writer::new(Layout::Indented).sorted();
        let mut text = writer.map_to_string(&self.to_map());
        text.push('\n');
        text
    }

    /// The rollup file as a JSON object, with its keys in the order of the fields of the types.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("schema_version", ROLLUP_VERSION);
        map.insert("format", ROLLUP_FORMAT);
        map.extend(map_of(self));
        map
    }
}

impl Coverage {
    /// The coverage of rollups that include every segment of a manifest. Without a manifest, the
    /// coverage lists no segments.
    pub fn of(
        manifest: Option<&Manifest>,
        pruned_segment_count: Option<i64>,
        pruned_bytes: Option<i64>,
    ) -> Self {
        let segments = manifest.map_or(&[][..], |manifest| &manifest.segments);
        let sum = |numbers: &mut dyn Iterator<Item = i64>| numbers.fold(0, i64::saturating_add);
        Self {
            retained_segment_filenames: segments
                .iter()
                .map(|segment| segment.filename.clone())
                .collect(),
            retained_segment_count: i64::try_from(segments.len()).unwrap_or(i64::MAX),
            retained_event_count: sum(&mut segments.iter().map(|segment| segment.event_count)),
            retained_bytes: sum(&mut segments.iter().map(|segment| segment.size_bytes)),
            pruned_segment_count,
            pruned_bytes,
        }
    }
}

impl SessionRollup {
    /// The sort key of sessions in a rollup file: by start, then by id.
    pub fn order(&self) -> (i64, &Text) {
        (self.session.started_at_ns, &self.session.session_id)
    }
}
