//! Reads the first events of a session, which describe its run, without loading the session.

use std::io::{BufRead as _, Read as _};
use std::path::Path;

use stormlog_format::{Event, Manifest, Text};

use super::follow::event_of_line;
use super::names::plain_or_compressed;
use crate::bytes::open_beside;

/// At most this many bytes of a segment are read.
const MOST_BYTES: u64 = 1 << 18;

/// The first events of a session of a sink, which are read as they are asked for. There are none
/// when the first segment of the session was deleted or begins with the events of another session.
pub(crate) fn first_events(
    sink: &Path,
    manifest: &Manifest,
    session_id: &Text,
) -> impl Iterator<Item = Event> + use<> {
    let mut segments = manifest.segments.iter();
    let first = segments.find(|segment| segment.session_id.as_ref() == Some(session_id));
    let file = first.and_then(|first| plain_or_compressed(sink, first.filename.as_str()?));
    let source = file.and_then(|file| open_beside(sink, &file).ok());
    // A compressed segment may be cut off; what was read before an error counts.
    let lines = source.into_iter().flat_map(|source| {
        let head = std::io::BufReader::new(source.reader.take(MOST_BYTES));
        head.split(b'\n').map_while(Result::ok)
    });
    let session_id = session_id.clone();
    let events = lines.map_while(|line| event_of_line(&line).ok()).flatten();
    events.take_while(move |event| event.session_id == session_id)
}
