//! Exports events to a file: a JSON list, or CSV with metadata as JSON.

use std::fs;
use std::io;
use std::path::Path;

use stormlog_format::json::{Layout, Writer};
use stormlog_format::spreadsheet::{ROW_END, push_row};
use stormlog_format::{Event, FIELDS, Map, Value};

use crate::redact::redacted_map;

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

/// Writes the events, with secrets removed, to a file. An existing file is overwritten.
pub fn export(path: &Path, events: &[Event], format: ExportFormat) -> io::Result<()> {
    let text = match format {
        ExportFormat::Json => json(events),
        ExportFormat::Csv => csv(events),
    };
    fs::write(path, text)
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
    push_row(&mut out, FIELDS, ROW_END);
    for event in events {
        let record = record(event);
        push_row(
            &mut out,
            record.iter().map(|(_, value)| cell(value)),
            ROW_END,
        );
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) => text.to_str_lossy().into_owned(),
        other => Writer::new(Layout::Line).to_string(other),
    }
}
