//! Identifies a recording by its content, whatever its path: a recording that was moved is not
//! stored again, and another recording at the path of an earlier one is stored.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use stormlog_format::json::parse;
use stormlog_format::{Event, RecordDefaults, Value, event_from_record};

/// The largest number of bytes of a file that are searched for the end of its first line.
const FIRST_LINE: u64 = 16 << 20;

/// A hash of several byte strings as 32 hexadecimal digits, from which ids of units and streams are
/// made.
pub(super) fn hash(parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

/// A number made from a hash. It is never negative, because it is stored as the version of a
/// transaction in a Delta log.
pub(super) fn number(parts: &[&[u8]]) -> i64 {
    let text = hash(parts);
    i64::from_str_radix(&text[..15], 16).unwrap_or(0)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(32);
    for byte in bytes.iter().take(16) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The id of the stream that a segment belongs to. A stream is all segments of one session that one
/// process wrote.
pub(super) fn of_segment(first: &Event) -> String {
    hash(&[
        b"session",
        first.session_id.as_bytes(),
        first.host.as_bytes(),
        &first.pid.to_le_bytes(),
        &first.rank.to_le_bytes(),
    ])
}

/// The id of a file of lines that is not a segment, from its first line, which contains a session
/// and a time.
pub(super) fn of_lines(first_line: &[u8]) -> String {
    hash(&[b"lines", first_line])
}

/// The id of a file that is stored as a whole, from its content.
pub(super) fn of_content(file: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    digest.update(b"content");
    let mut reader = File::open(file)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(&buffer[..count]);
    }
}

/// The first line of a file, without its line end; `None` when the file has no line yet.
pub(super) fn first_line(reader: &mut dyn Read) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut buffer = vec![0; 4096];
    while (line.len() as u64) < FIRST_LINE {
        let count = reader.read(&mut buffer)?;
        let end = buffer[..count].iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&buffer[..end.unwrap_or(count)]);
        if end.is_some() || count == 0 {
            let is_line = end.is_some() || parse(&line).is_ok();
            return Ok(Some(line).filter(|line| is_line && !line.is_empty()));
        }
    }
    Ok(Some(line))
}

/// Parses a line as an event. Records without a `schema_version` are accepted, and missing values
/// are not filled in from a manifest.
pub(super) fn event_of(line: &[u8]) -> Option<Event> {
    let Ok(Value::Map(record)) = parse(line) else {
        return None;
    };
    let defaults = RecordDefaults {
        permissive_legacy: true,
        ..RecordDefaults::default()
    };
    event_from_record(&record, &defaults).ok()
}
