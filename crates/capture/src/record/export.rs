//! Exports events to a file: a JSON list, or CSV with metadata as JSON.

use std::fs;
use std::io;
use std::path::Path;

use stormlog_format::json::{Layout, Writer};
use stormlog_format::spreadsheet::{ROW_END, push_row};
use stormlog_format::{Event, FIELDS, Map, Value};

use crate::redact::redacted_map;

/// The file format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON list of records, indented.
    Json,
    /// CSV with one line per record.
    Csv,
}

impl ExportFormat {
    /// Parses the name of an export format.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Writes the events to a file.
pub fn export(path: &Path, events: &[Event], format: ExportFormat) -> io::Result<()> {
    let text = match format {
        ExportFormat::Json => json(events),
        ExportFormat::Csv => csv(events),
    };
    fs::write(path, text)
}

/// An event as a record of a sink, with secrets removed.
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
