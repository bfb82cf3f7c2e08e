//! Reads `rollups.json` strictly: every key is required and must have the right type, so that a
//! faulty edit by hand is rejected.

use super::file::{
    AlertSummary, CounterSummary, Coverage, HealthSummary, OomSummary, Peak, RankRollup,
    RollupFile, SessionRollup, WindowRollup,
};
use super::{ROLLUP_FORMAT, ROLLUP_VERSION};
use crate::session::{SessionError, SessionSummary};
use crate::text::Text;
use crate::value::{Map, Value};

/// Why a rollup file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum RollupError {
    #[error("telemetry rollups must be an object")]
    NotAnObject,
    #[error("unsupported telemetry rollup schema_version")]
    UnsupportedVersion,
    #[error("unsupported telemetry rollup format")]
    UnsupportedFormat,
    #[error("missing required {0}")]
    Missing(&'static str),
    #[error("{0} must be an integer")]
    NotAnInteger(&'static str),
    #[error("{field} must be >= {minimum}")]
    TooSmall { field: &'static str, minimum: i64 },
    #[error("{0} must be a number or null")]
    NotANumber(&'static str),
    #[error("{0} must be a string or null")]
    NotAString(&'static str),
    #[error("{0} must be a list")]
    NotAList(&'static str),
    #[error("{0} must contain only strings")]
    NotStrings(&'static str),
    #[error("{0} must be an object")]
    FieldNotAnObject(&'static str),
    #[error("{0} item must be an object")]
    ItemNotAnObject(&'static str),
    #[error("{0} values must be non-negative integers")]
    NotCounts(&'static str),
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl RollupFile {
    /// Reads the rollups from the parsed JSON of `rollups.json`.
    pub fn from_value(document: &Value) -> Result<Self, RollupError> {
        let map = Fields(document.as_map().ok_or(RollupError::NotAnObject)?);
        if map.integer("schema_version", Some(1))? != ROLLUP_VERSION {
            return Err(RollupError::UnsupportedVersion);
        }
        match map.0.get("format") {
            Some(Value::Text(format)) if *format == ROLLUP_FORMAT => {}
            _ => return Err(RollupError::UnsupportedFormat),
        }
        Ok(Self {
            generated_at_ns: map.count("generated_at_ns")?,
            source_manifest: map.optional_text("source_manifest")?,
            source_manifest_schema_version: map
                .optional_integer("source_manifest_schema_version", Some(1))?,
            window_duration_ns: map.integer("window_duration_ns", Some(1))?,
            coverage: coverage(map.object("coverage")?)?,
            sessions: map.objects("sessions", session)?,
        })
    }
}

fn coverage(map: Fields<'_>) -> Result<Coverage, RollupError> {
    Ok(Coverage {
        retained_segment_filenames: map.texts("retained_segment_filenames")?,
        retained_segment_count: map.count("retained_segment_count")?,
        retained_event_count: map.count("retained_event_count")?,
        retained_bytes: map.count("retained_bytes")?,
        pruned_segment_count: map.optional_integer("pruned_segment_count", Some(0))?,
        pruned_bytes: map.optional_integer("pruned_bytes", Some(0))?,
    })
}

fn session(map: Fields<'_>) -> Result<SessionRollup, RollupError> {
    Ok(SessionRollup {
        session: SessionSummary::from_map(map.object("session")?.0)?,
        event_count: map.count("event_count")?,
        sample_count: map.count("sample_count")?,
        first_timestamp_ns: map.optional_integer("first_timestamp_ns", Some(0))?,
        last_timestamp_ns: map.optional_integer("last_timestamp_ns", Some(0))?,
        source_count: map.count("source_count")?,
        sources_loaded: map.texts("sources_loaded")?,
        warnings: map.texts("warnings")?,
        counters: counters(map.object("counters")?)?,
        alerts: alerts(map.object("alerts")?)?,
        collector_health: health(map.object("collector_health")?)?,
        oom: oom(map.object("oom")?)?,
        ranks: map.objects("ranks", rank)?,
        windows: map.objects("windows", window)?,
    })
}

fn counters(map: Fields<'_>) -> Result<CounterSummary, RollupError> {
    Ok(CounterSummary {
        allocator_allocated_bytes: peak(map.object("allocator_allocated_bytes")?)?,
        allocator_reserved_bytes: peak(map.object("allocator_reserved_bytes")?)?,
        device_used_bytes: peak(map.object("device_used_bytes")?)?,
    })
}

fn peak(map: Fields<'_>) -> Result<Peak, RollupError> {
    Ok(Peak {
        value: map.optional_integer("value", None)?,
        timestamp_ns: map.optional_integer("timestamp_ns", Some(0))?,
        rank: map.optional_integer("rank", Some(0))?,
        device_id: map.optional_integer("device_id", None)?,
    })
}

fn alerts(map: Fields<'_>) -> Result<AlertSummary, RollupError> {
    Ok(AlertSummary {
        total_count: map.count("total_count")?,
        severity_counts: map.counts("severity_counts")?,
        event_type_counts: map.counts("event_type_counts")?,
    })
}

fn health(map: Fields<'_>) -> Result<HealthSummary, RollupError> {
    Ok(HealthSummary {
        transition_count: map.count("transition_count")?,
        degraded_count: map.count("degraded_count")?,
        recovered_count: map.count("recovered_count")?,
        degraded_time_ns: map.count("degraded_time_ns")?,
        last_status: map.optional_text("last_status")?,
    })
}

fn oom(map: Fields<'_>) -> Result<OomSummary, RollupError> {
    Ok(OomSummary {
        marker_count: map.count("marker_count")?,
        event_count: map.count("event_count")?,
        bundle_path_count: map.count("bundle_path_count")?,
    })
}

fn rank(map: Fields<'_>) -> Result<RankRollup, RollupError> {
    Ok(RankRollup {
        rank: map.count("rank")?,
        local_rank: map.count("local_rank")?,
        world_size: map.integer("world_size", Some(1))?,
        event_count: map.count("event_count")?,
        sample_count: map.count("sample_count")?,
        first_timestamp_ns: map.optional_integer("first_timestamp_ns", Some(0))?,
        last_timestamp_ns: map.optional_integer("last_timestamp_ns", Some(0))?,
        counters: counters(map.object("counters")?)?,
        hidden_gap_first_bytes: map.optional_integer("hidden_gap_first_bytes", None)?,
        hidden_gap_latest_bytes: map.optional_integer("hidden_gap_latest_bytes", None)?,
        hidden_gap_peak_bytes: map.optional_integer("hidden_gap_peak_bytes", None)?,
        hidden_gap_delta_bytes: map.optional_integer("hidden_gap_delta_bytes", None)?,
        hidden_gap_drift_bytes_per_second: map
            .optional_number("hidden_gap_drift_bytes_per_second")?,
    })
}

fn window(map: Fields<'_>) -> Result<WindowRollup, RollupError> {
    Ok(WindowRollup {
        index: map.count("index")?,
        start_ns: map.count("start_ns")?,
        end_ns: map.count("end_ns")?,
        event_count: map.count("event_count")?,
        sample_count: map.count("sample_count")?,
        rank_count: map.count("rank_count")?,
        counters: counters(map.object("counters")?)?,
        alert_count: map.count("alert_count")?,
        collector_transition_count: map.count("collector_transition_count")?,
        oom_count: map.count("oom_count")?,
    })
}

/// A JSON object in which all fields are required.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a Map);

impl<'a> Fields<'a> {
    fn get(self, key: &'static str) -> Result<&'a Value, RollupError> {
        self.0.get(key).ok_or(RollupError::Missing(key))
    }

    fn integer(self, key: &'static str, minimum: Option<i64>) -> Result<i64, RollupError> {
        let Value::Int(value) = self.get(key)? else {
            return Err(RollupError::NotAnInteger(key));
        };
        match minimum {
            Some(minimum) if *value < minimum => Err(RollupError::TooSmall {
                field: key,
                minimum,
            }),
            _ => Ok(*value),
        }
    }

    fn count(self, key: &'static str) -> Result<i64, RollupError> {
        self.integer(key, Some(0))
    }

    fn optional_integer(
        self,
        key: &'static str,
        minimum: Option<i64>,
    ) -> Result<Option<i64>, RollupError> {
        match self.get(key)? {
            Value::Null => Ok(None),
            _ => self.integer(key, minimum).map(Some),
        }
    }

    fn optional_number(self, key: &'static str) -> Result<Option<f64>, RollupError> {
        match self.get(key)? {
            Value::Null => Ok(None),
            value => value
                .as_number()
                .map(Some)
                .ok_or(RollupError::NotANumber(key)),
        }
    }

    fn optional_text(self, key: &'static str) -> Result<Option<Text>, RollupError> {
        match self.get(key)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text.clone())),
            _ => Err(RollupError::NotAString(key)),
        }
    }

    fn list(self, key: &'static str) -> Result<&'a [Value], RollupError> {
        match self.get(key)? {
            Value::List(items) => Ok(items),
            _ => Err(RollupError::NotAList(key)),
        }
    }

    fn texts(self, key: &'static str) -> Result<Vec<Text>, RollupError> {
        let texts = self.list(key)?.iter().map(|item| item.as_text().cloned());
        texts
            .collect::<Option<_>>()
            .ok_or(RollupError::NotStrings(key))
    }

    fn object(self, key: &'static str) -> Result<Fields<'a>, RollupError> {
        let map = self.get(key)?.as_map();
        map.map(Fields).ok_or(RollupError::FieldNotAnObject(key))
    }

    fn objects<T>(
        self,
        key: &'static str,
        read: impl Fn(Fields<'a>) -> Result<T, RollupError>,
    ) -> Result<Vec<T>, RollupError> {
        let items = self.list(key)?.iter().map(|item| {
            let map = item.as_map().ok_or(RollupError::ItemNotAnObject(key))?;
            read(Fields(map))
        });
        items.collect()
    }

    fn counts(self, key: &'static str) -> Result<Vec<(Text, i64)>, RollupError> {
        let counts = self.object(key)?.0.iter().map(|(name, count)| match count {
            Value::Int(count) if *count >= 0 => Ok((name.clone(), *count)),
            _ => Err(RollupError::NotCounts(key)),
        });
        counts.collect()
    }
}
