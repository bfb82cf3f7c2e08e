//! Converts the filters of the Python package to the filters of the Rust crates, which select
//! events, sessions, runs and issues in queries.

use pyo3::prelude::*;
use stormlog_analysis::issue::IssueFilter;
use stormlog_analysis::query::{
    AttachmentFilter, EventFilter, OomFilter, RunAttachmentFilter, RunFilter, SessionFilter,
};
use stormlog_compat::correlate::{CorrelationFilter, Scope};
use stormlog_format::{Map, Text, Value, python_str};

use crate::convert::Reading;
use crate::errors::invalid_value;

/// The conditions of a filter by name. The value `None` means that the filter does not have the
/// condition.
pub(crate) struct Wanted(Map);

impl Wanted {
    /// Reads the conditions from a mapping with the attributes of a Python filter object.
    pub(crate) fn of(attributes: &Bound<'_, PyAny>) -> PyResult<Self> {
        let wanted = Reading::Record.deep_map(attributes)?;
        Ok(Self(wanted.unwrap_or_default()))
    }

    fn text(&self, key: &str) -> Option<Text> {
        match self.0.get(key)? {
            Value::Null => None,
            value => Some(python_str(value)),
        }
    }

    /// A condition as a number; a value that is not a number matches no event.
    fn number(&self, key: &str) -> Option<i64> {
        match self.0.get(key)? {
            Value::Null => None,
            Value::Bool(value) => Some(i64::from(*value)),
            value => Some(value.as_int().unwrap_or(i64::MIN)),
        }
    }

    /// A condition that is a time; a time out of range becomes the first or the last possible time.
    fn time(&self, key: &str) -> Option<i64> {
        match self.0.get(key)? {
            Value::Null => None,
            Value::Big(digits) if digits.starts_with('-') => Some(i64::MIN),
            Value::Big(_) => Some(i64::MAX),
            value => value.as_int(),
        }
    }

    fn flag(&self, key: &str) -> Option<bool> {
        match self.0.get(key)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn limit(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let Some(limit) = self.time("limit") else {
            return Ok(None);
        };
        let limit = usize::try_from(limit);
        limit
            .map(Some)
            .map_err(|_| invalid_value(py, "limit must be >= 0"))
    }

    pub(crate) fn runs(&self) -> RunFilter {
        RunFilter {
            run_id: self.text("run_id"),
            session_id: self.text("session_id"),
            job_id: self.text("job_id"),
            rank: self.number("rank"),
            source_namespace: self.text("source_namespace"),
            source_ref: self.text("source_ref"),
        }
    }

    pub(crate) fn run_attachments(&self) -> RunAttachmentFilter {
        RunAttachmentFilter {
            run: self.runs(),
            kind: self.text("kind"),
        }
    }

    pub(crate) fn sessions(&self) -> SessionFilter {
        SessionFilter {
            session_id: self.text("session_id"),
            status: self.text("status"),
            job_id: self.text("job_id"),
            rank: self.number("rank"),
            world_size: self.number("world_size"),
            has_oom_bundle: self.flag("has_oom_bundle"),
            source_kind: self.text("source_kind"),
        }
    }

    pub(crate) fn events(&self, py: Python<'_>) -> PyResult<EventFilter> {
        Ok(EventFilter {
            session_id: self.text("session_id"),
            event_type: self.text("event_type"),
            rank: self.number("rank"),
            collector: self.text("collector"),
            status: self.text("status"),
            time_start_ns: self.time("time_start_ns"),
            time_end_ns: self.time("time_end_ns"),
            has_alert: self.flag("has_alert"),
            collector_health_status: self.text("collector_health_status"),
            backend: self.text("backend"),
            limit: self.limit(py)?,
        })
    }

    pub(crate) fn oom_bundles(&self) -> OomFilter {
        OomFilter {
            session_id: self.text("session_id"),
            backend: self.text("backend"),
            reason: self.text("reason"),
            created_after: self.text("created_after"),
            created_before: self.text("created_before"),
        }
    }

    pub(crate) fn attachments(&self) -> AttachmentFilter {
        AttachmentFilter {
            session_id: self.text("session_id"),
            job_id: self.text("job_id"),
            rank: self.number("rank"),
            kind: self.text("kind"),
        }
    }

    pub(crate) fn issues(&self) -> IssueFilter {
        IssueFilter {
            fingerprint_id: self.text("fingerprint_id"),
            kind: self.text("kind"),
            state: self.text("state"),
            severity: self.text("severity"),
            session_id: self.text("session_id"),
        }
    }

    pub(crate) fn correlation(&self, py: Python<'_>) -> PyResult<CorrelationFilter> {
        let kinds = match self.0.get("kinds") {
            Some(Value::List(kinds)) => kinds.iter().map(python_str).collect(),
            _ => Vec::new(),
        };
        let scope = self.text("scope");
        let scope = scope.as_ref().and_then(Text::as_str).and_then(Scope::parse);
        Ok(CorrelationFilter {
            session_id: self.text("session_id"),
            job_id: self.text("job_id"),
            rank: self.number("rank"),
            scope: scope.unwrap_or_default(),
            at_ns: self.time("at_ns"),
            record_id: self.text("record_id"),
            window_ns: self.time("window_ns").unwrap_or_default(),
            kinds,
            limit: self.limit(py)?,
        })
    }
}
