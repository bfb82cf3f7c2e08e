//! The contents of `rollups.json` as types, and their conversion to text.

use super::{ROLLUP_FORMAT, ROLLUP_VERSION};
use crate::json::{Layout, Writer};
use crate::manifest::Manifest;
use crate::session::SessionSummary;
use crate::text::Text;
use crate::value::{Map, Value};

/// The whole rollup file.
#[derive(Clone, Debug, PartialEq)]
pub struct RollupFile {
    /// When the rollup file was created.
    pub generated_at_ns: i64,
    /// The path of the manifest from which the rollups were created.
    pub source_manifest: Option<Text>,
    /// The version of the manifest from which the rollups were created.
    pub source_manifest_schema_version: Option<i64>,
    /// The length of a time window, in nanoseconds.
    pub window_duration_ns: i64,
    /// The segments that the rollups cover.
    pub coverage: Coverage,
    /// The rollups of the sessions, ordered by start and id.
    pub sessions: Vec<SessionRollup>,
}

/// The segments of a sink that its rollups cover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct Coverage {
    pub retained_segment_filenames: Vec<Text>,
    pub retained_segment_count: i64,
    pub retained_event_count: i64,
    pub retained_bytes: i64,
    pub pruned_segment_count: Option<i64>,
    pub pruned_bytes: Option<i64>,
}

/// The rollup of one session.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
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

/// The highest value of a counter, with time, rank and device of the first event that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct Peak {
    pub value: Option<i64>,
    pub timestamp_ns: Option<i64>,
    pub rank: Option<i64>,
    pub device_id: Option<i64>,
}

/// The peaks of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct CounterSummary {
    pub allocator_allocated_bytes: Peak,
    pub allocator_reserved_bytes: Peak,
    pub device_used_bytes: Peak,
}

/// The number of alerts, by severity and by event type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct AlertSummary {
    pub total_count: i64,
    pub severity_counts: Vec<(Text, i64)>,
    pub event_type_counts: Vec<(Text, i64)>,
}

/// The health of the collectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct HealthSummary {
    pub transition_count: i64,
    pub degraded_count: i64,
    pub recovered_count: i64,
    pub degraded_time_ns: i64,
    pub last_status: Option<Text>,
}

/// The number of out-of-memory errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
pub struct OomSummary {
    pub marker_count: i64,
    pub event_count: i64,
    pub bundle_path_count: i64,
}

/// The rollup of one rank.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
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

/// The rollup of one time window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields are the keys, described in docs/schemas"
)]
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
    /// Whether the rollup file matches the manifest: the same segments with the same numbers of
    /// events and bytes.
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

    /// The rollup file as an object, with its keys in the order of the types.
    pub fn to_map(&self) -> Map {
        object([
            ("schema_version", ROLLUP_VERSION.into()),
            ("format", ROLLUP_FORMAT.into()),
            ("generated_at_ns", self.generated_at_ns.into()),
            ("source_manifest", self.source_manifest.clone().into()),
            (
                "source_manifest_schema_version",
                self.source_manifest_schema_version.into(),
            ),
            ("window_duration_ns", self.window_duration_ns.into()),
            ("coverage", Value::Map(self.coverage.to_map())),
            ("sessions", list(&self.sessions, SessionRollup::to_map)),
        ])
    }
}

impl Coverage {
    /// The coverage of rollups that include every segment of a manifest.
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

    /// The coverage as a JSON object.
    pub fn to_map(&self) -> Map {
        object([
            (
                "retained_segment_filenames",
                texts(&self.retained_segment_filenames),
            ),
            ("retained_segment_count", self.retained_segment_count.into()),
            ("retained_event_count", self.retained_event_count.into()),
            ("retained_bytes", self.retained_bytes.into()),
            ("pruned_segment_count", self.pruned_segment_count.into()),
            ("pruned_bytes", self.pruned_bytes.into()),
        ])
    }
}

impl SessionRollup {
    /// The sort key of sessions: by start, then by id.
    pub fn order(&self) -> (i64, &Text) {
        (self.session.started_at_ns, &self.session.session_id)
    }

    /// The session's rollup as a JSON object.
    pub fn to_map(&self) -> Map {
        object([
            ("session", Value::Map(self.session.to_map())),
            ("event_count", self.event_count.into()),
            ("sample_count", self.sample_count.into()),
            ("first_timestamp_ns", self.first_timestamp_ns.into()),
            ("last_timestamp_ns", self.last_timestamp_ns.into()),
            ("source_count", self.source_count.into()),
            ("sources_loaded", texts(&self.sources_loaded)),
            ("warnings", texts(&self.warnings)),
            ("counters", Value::Map(self.counters.to_map())),
            ("alerts", Value::Map(self.alerts.to_map())),
            (
                "collector_health",
                Value::Map(self.collector_health.to_map()),
            ),
            ("oom", Value::Map(self.oom.to_map())),
            ("ranks", list(&self.ranks, RankRollup::to_map)),
            ("windows", list(&self.windows, WindowRollup::to_map)),
        ])
    }
}

impl Peak {
    fn to_map(self) -> Map {
        object([
            ("value", self.value.into()),
            ("timestamp_ns", self.timestamp_ns.into()),
            ("rank", self.rank.into()),
            ("device_id", self.device_id.into()),
        ])
    }
}

impl CounterSummary {
    fn to_map(self) -> Map {
        let peak = |peak: Peak| Value::Map(peak.to_map());
        object([
            (
                "allocator_allocated_bytes",
                peak(self.allocator_allocated_bytes),
            ),
            (
                "allocator_reserved_bytes",
                peak(self.allocator_reserved_bytes),
            ),
            ("device_used_bytes", peak(self.device_used_bytes)),
        ])
    }
}

impl AlertSummary {
    fn to_map(&self) -> Map {
        let counts = |counts: &[(Text, i64)]| {
            let entries = counts
                .iter()
                .map(|(name, count)| (name.clone(), (*count).into()));
            Value::Map(entries.collect())
        };
        object([
            ("total_count", self.total_count.into()),
            ("severity_counts", counts(&self.severity_counts)),
            ("event_type_counts", counts(&self.event_type_counts)),
        ])
    }
}

impl HealthSummary {
    fn to_map(&self) -> Map {
        object([
            ("transition_count", self.transition_count.into()),
            ("degraded_count", self.degraded_count.into()),
            ("recovered_count", self.recovered_count.into()),
            ("degraded_time_ns", self.degraded_time_ns.into()),
            ("last_status", self.last_status.clone().into()),
        ])
    }
}

impl OomSummary {
    fn to_map(self) -> Map {
        object([
            ("marker_count", self.marker_count.into()),
            ("event_count", self.event_count.into()),
            ("bundle_path_count", self.bundle_path_count.into()),
        ])
    }
}

impl RankRollup {
    fn to_map(&self) -> Map {
        let drift = self.hidden_gap_drift_bytes_per_second;
        object([
            ("rank", self.rank.into()),
            ("local_rank", self.local_rank.into()),
            ("world_size", self.world_size.into()),
            ("event_count", self.event_count.into()),
            ("sample_count", self.sample_count.into()),
            ("first_timestamp_ns", self.first_timestamp_ns.into()),
            ("last_timestamp_ns", self.last_timestamp_ns.into()),
            ("counters", Value::Map(self.counters.to_map())),
            ("hidden_gap_first_bytes", self.hidden_gap_first_bytes.into()),
            (
                "hidden_gap_latest_bytes",
                self.hidden_gap_latest_bytes.into(),
            ),
            ("hidden_gap_peak_bytes", self.hidden_gap_peak_bytes.into()),
            ("hidden_gap_delta_bytes", self.hidden_gap_delta_bytes.into()),
            (
                "hidden_gap_drift_bytes_per_second",
                drift.map_or(Value::Null, Value::Float),
            ),
        ])
    }
}

impl WindowRollup {
    fn to_map(&self) -> Map {
        object([
            ("index", self.index.into()),
            ("start_ns", self.start_ns.into()),
            ("end_ns", self.end_ns.into()),
            ("event_count", self.event_count.into()),
            ("sample_count", self.sample_count.into()),
            ("rank_count", self.rank_count.into()),
            ("counters", Value::Map(self.counters.to_map())),
            ("alert_count", self.alert_count.into()),
            (
                "collector_transition_count",
                self.collector_transition_count.into(),
            ),
            ("oom_count", self.oom_count.into()),
        ])
    }
}

fn object<const N: usize>(entries: [(&str, Value); N]) -> Map {
    entries
        .into_iter()
        .map(|(key, value)| (key.into(), value))
        .collect()
}

fn list<T>(items: &[T], to_map: impl Fn(&T) -> Map) -> Value {
    Value::List(items.iter().map(|item| Value::Map(to_map(item))).collect())
}

fn texts(items: &[Text]) -> Value {
    Value::List(items.iter().cloned().map(Value::Text).collect())
}
