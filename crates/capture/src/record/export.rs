//! Exports events to a file: a JSON list, or CSV with metadata as JSON.

use std::io;
use std::path::Path;

use stormlog_format::json::{Layout, Writer};
use stormlog_format::spreadsheet::{push_event_header, push_event_row};
use stormlog_format::{Event, Map, Value};

use crate::files::write_whole;
use stormlog_redact::redacted_map;

/// The file format in which events are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON list with one object per event, indented.
    Json,
    /// CSV with a header and one row per event.
    Csv,
}

impl ExportFormat {
    /// The format with the name `json` or `csv`; `None` for other names.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Writes the events, with secrets removed, to a file. An existing file is replaced.
pub fn export(path: &Path, events: &[Event], format: ExportFormat) -> io::Result<()> {
    let text = match format {
        ExportFormat::Json => json(events),
        ExportFormat::Csv => csv(events),
    };
    write_whole(path, text.as_bytes())
}

/// An event as the JSON object that a sink writes for it, with secrets removed.
fn record(event: &Event) -> Map {
    redacted_map(event.to_record())
}

fn json(events: &[Event]) -> String {
    let records = events.iter().map(|event| Value::Map(record(event)));
    Writer::new(Layout::Indented).to_string(&Value::List(records.collect()))
}

fn csv(events: &[Event]) -> String {
    let mut out = String::new();
    push_event_header(&mut out);
    for event in events {
        push_event_row(&mut out, &record(event));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_created_and_a_device_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/events.json");
        export(&path, &[], ExportFormat::Json).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]");
        export(Path::new("/dev/null"), &[], ExportFormat::Csv).unwrap();
    }
}
