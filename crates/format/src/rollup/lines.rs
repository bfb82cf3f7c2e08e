//! Reads events for a rollup directly from the lines of a segment.

use super::observe::Observation;
use crate::event::Event;
use crate::json::parse;
use crate::record::{RecordDefaults, event_from_record};
use crate::record_error::RecordError;
use crate::scan::Scanner;
use crate::text::{Text, strip};
use crate::value::Value;

/// Why a line of a segment is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error message of a variant describes it")]
pub enum LineError {
    #[error("not JSON")]
    Malformed,
    #[error("not an object")]
    NotAnObject,
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Calls `take` with every event in the given lines and the session that the event belongs to.
/// Records without a session id belong to the session given as `session`. If the last line has no
/// newline and is invalid, a crash has torn it, and it is skipped.
pub fn observe_lines(
    text: &[u8],
    session: &Text,
    mut take: impl FnMut(&[u8], &Observation),
) -> Result<(), LineError> {
    let mut scanner = Scanner::default();
    let mut offset = 0;
    while offset < text.len() {
        let line_end = memchr::memchr(b'\n', &text[offset..]).map(|end| offset + end);
        let end = line_end.unwrap_or(text.len());
        match scanner.scan(text, offset) {
            Some((record, stop)) if stop == end => {
                take(record.origin.session_id, &Observation::of_raw(&record));
            }
            _ => match event_of_line(&text[offset..end], session) {
                Ok(None) => {}
                Ok(Some(event)) => take(event.session_id.as_bytes(), &Observation::of(&event)),
                Err(LineError::Malformed) if line_end.is_none() => {}
                Err(error) => return Err(error),
            },
        }
        offset = end + 1;
    }
    Ok(())
}

/// Calls `take` with every event in the given lines, like [`observe_lines`] but with complete
/// events.
pub fn events_of_lines(
    text: &[u8],
    session: &Text,
    mut take: impl FnMut(Event),
) -> Result<(), LineError> {
    let mut lines = text.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        match event_of_line(line, session) {
            Ok(event) => event.into_iter().for_each(&mut take),
            Err(LineError::Malformed) if lines.peek().is_none() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Parses the event in a line; `None` for a blank line. The event belongs to `session` if it has no
/// session id.
fn event_of_line(line: &[u8], session: &Text) -> Result<Option<Event>, LineError> {
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(LineError::Malformed);
    };
    if strip(text).is_empty() {
        return Ok(None);
    }
    let value = parse(line).map_err(|_| LineError::Malformed)?;
    let record = value.as_map().ok_or(LineError::NotAnObject)?;
    let defaults = RecordDefaults {
        session_id: Some(Value::Text(session.clone())),
        ..RecordDefaults::default()
    };
    Ok(Some(event_from_record(record, &defaults)?))
}
