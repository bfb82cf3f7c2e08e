//! Sessions, with their summaries and life cycles. A session is what was recorded of one process,
//! or of one resource of a process.

mod process;
mod recorder_mark;
mod select;
mod span;

pub use process::ProcessIdentity;
pub use recorder_mark::{LONGEST_RECORDER_MARK, RECORDER_MARK, apply_recorder_mark, recorder_mark};
pub use select::SelectionKey;
pub use span::SessionSpan;

use serde::Serialize;
use uuid::Uuid;

use crate::json::{map_of, value_of};
use crate::number::{IntegerError, python_int};
use crate::text::Text;
use crate::value::{Map, Value};

/// The status of a session. The variants are ordered by how far the recording of the session can be
/// trusted, the most trustworthy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionStatus {
    /// The session ended normally.
    Completed,
    /// The recording process ended without closing the session, for example because it was killed.
    Interrupted,
    /// The session ended, but not all of its events could be recorded.
    Incomplete,
    /// The session has not been closed: it is still being recorded, or its process died unnoticed.
    Running,
}

crate::names!(SessionStatus {
    Completed => "completed",
    Interrupted => "interrupted",
    Incomplete => "incomplete",
    Running => "running",
});

impl SessionStatus {
    /// Reads the status of a session from a JSON value, ignoring case and surrounding white space.
    pub fn of_value(value: &Value) -> Result<Self, SessionError> {
        let text = value
            .as_text()
            .filter(|text| !text.is_blank())
            .ok_or(SessionError::BlankStatus)?;
        Self::from_word(&text.lowercased().stripped())
            .ok_or_else(|| SessionError::UnsupportedStatus(text.clone()))
    }

    /// Parses a session's status; the word must be written as in files, in lower case and without
    /// spaces around it.
    pub fn from_word(word: &Text) -> Option<Self> {
        Self::parse(word.as_str()?)
    }

    /// The status of a session after a normal end; an earlier problem such as `Incomplete` stays.
    #[must_use]
    pub fn finished(self) -> Self {
        match self {
            Self::Running | Self::Completed => Self::Completed,
            Self::Interrupted | Self::Incomplete => self,
        }
    }
}

/// Why a session summary cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum SessionError {
    #[error("session summary payload must be an object")]
    NotAnObject,
    #[error("session status must be a non-empty string")]
    BlankStatus,
    #[error("Unsupported session status: {0}")]
    UnsupportedStatus(Text),
    #[error("{0} must be a non-empty string")]
    BlankField(&'static str),
    #[error("started_at_ns must be present")]
    MissingStart,
    #[error("{0} must be a number or a text with a number")]
    WrongType(&'static str),
    #[error("{0} must be an integer")]
    NotAnInteger(&'static str),
    #[error("{0} must fit a signed 64-bit integer")]
    IntegerTooLarge(&'static str),
}

/// What a manifest says about a session: its id, status, times, process and source, without its
/// events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "each field is a key in JSON files, described in docs/schemas"
)]
pub struct SessionSummary {
    pub session_id: Text,
    pub status: SessionStatus,
    pub started_at_ns: i64,
    pub ended_at_ns: Option<i64>,
    pub host: Text,
    pub pid: i64,
    pub job_id: Option<Text>,
    pub rank: i64,
    pub local_rank: i64,
    pub world_size: i64,
    pub source: Text,
    /// The identity of the process that records the session. The recording process is known and
    /// written only while the session is running.
    #[serde(skip)]
    pub recorder: Option<ProcessIdentity>,
}

impl SessionSummary {
    /// Reads a session summary from a JSON object of a manifest or another file.
    pub fn from_map(map: &Map) -> Result<Self, SessionError> {
        let name = |key: &'static str| match map.get(key) {
            Some(Value::Text(text)) if !text.is_blank() => Ok(text.clone()),
            _ => Err(SessionError::BlankField(key)),
        };
        let number = |key: &'static str, default: i64| match map.get(key) {
            None => Ok(default),
            Some(value) => session_integer(key, value),
        };
        let session_id = name("session_id")?;
        let source = name("source")?;
        let status = SessionStatus::of_value(map.get("status").unwrap_or(&Value::Null))?;
        let time = |key: &'static str| {
            let value = map.get(key).filter(|value| !value.is_null());
            value.map(|value| session_integer(key, value)).transpose()
        };
        let started_at_ns = time("started_at_ns")?.ok_or(SessionError::MissingStart)?;
        let ended_at_ns = time("ended_at_ns")?;
        Ok(Self {
            session_id,
            status,
            started_at_ns,
            ended_at_ns,
            host: name("host")?,
            pid: number("pid", -1)?,
            job_id: map.text("job_id").cloned(),
            rank: number("rank", 0)?,
            local_rank: number("local_rank", 0)?,
            world_size: number("world_size", 1)?.max(1),
            source,
            recorder: match map.get("recorder") {
                Some(Value::Map(recorder)) if status == SessionStatus::Running => {
                    ProcessIdentity::from_map(recorder)
                }
                _ => None,
            },
        })
    }

    /// The session summary as a JSON object, with its keys in the order of the fields and without
    /// the recording process.
    pub fn to_map(&self) -> Map {
        map_of(self)
    }

    /// The session summary as manifests of sinks contain it. While the session is running, the
    /// summary includes the recording process.
    pub fn to_manifest_map(&self) -> Map {
        let mut map = self.to_map();
        if let (SessionStatus::Running, Some(recorder)) = (self.status, &self.recorder) {
            map.insert("recorder", value_of(recorder));
        }
        map
    }

    /// The sort key for selecting a session when the user names none: the most trustworthy status
    /// first, then the latest session, then the id.
    pub fn selection_key(&self) -> SelectionKey<'_> {
        SelectionKey::new(
            Some(self.status),
            self.started_at_ns,
            self.ended_at_ns,
            &self.session_id,
        )
    }
}

/// Converts the value of a session summary's field to an integer like Python's `int`. The argument
/// `field` is the name of the field, which the errors contain.
pub fn session_integer(field: &'static str, value: &Value) -> Result<i64, SessionError> {
    python_int(value).map_err(|error| match error {
        IntegerError::WrongType => SessionError::WrongType(field),
        IntegerError::Invalid => SessionError::NotAnInteger(field),
        IntegerError::TooLarge => SessionError::IntegerTooLarge(field),
    })
}

/// The id for a session that was recorded before sessions had ids, computed from the given parts.
/// Sessions with equal parts always get equal ids.
pub fn stable_legacy_session_id(parts: &[Text]) -> Text {
    let mut name = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            name.extend_from_slice(b"::");
        }
        name.extend_from_slice(part.as_bytes());
    }
    format!("legacy-{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, &name)).into()
}

/// A new random session id.
pub fn new_session_id() -> Text {
    Uuid::new_v4().to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_stays_known() {
        use SessionStatus::{Completed, Incomplete, Running};
        assert_eq!(Running.finished(), Completed);
        assert_eq!(Incomplete.finished(), Incomplete);
    }

    #[test]
    fn legacy_ids_are_stable() {
        assert_eq!(
            stable_legacy_session_id(&["/data/run.json".into(), "json".into()]),
            "legacy-54371940-ab5e-580a-ba34-720902bec082"
        );
    }
}
