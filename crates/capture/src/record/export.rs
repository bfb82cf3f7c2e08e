//! Events as files that people take elsewhere: a JSON list, or CSV with JSON metadata.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use stormlog_format::json::{Layout, Writer};
use stormlog_format::{Event, FIELDS, Map, Text, Value};

use crate::redact::redacted_map;

/// How events are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A list of records, indented.
    Json,
    /// One line per record.
    Csv,
}

impl ExportFormat {
    /// The format of this name.
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

/// What a sink holds of an event: everything but secrets.
fn record(event: &Event) -> Map {
    redacted_map(event.to_record())
}

fn json(events: &[Event]) -> String {
    let records = events.iter().map(|event| Value::Map(record(event)));
    Writer::new(Layout::Indented).to_string(&Value::List(records.collect()))
}

fn csv(events: &[Event]) -> String {
    let mut out = FIELDS.join(",");
    out.push_str("\r\n");
    for event in events {
        for (place, (_, value)) in record(event).iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            cell(&mut out, value);
        }
        out.push_str("\r\n");
    }
    out
}

fn cell(out: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Text(text) => quoted(out, &Text::to_str_lossy(text)),
        other => quoted(out, &Writer::new(Layout::Line).to_string(other)),
    }
}

/// A cell as spreadsheets read it: in quotes when it holds a separator.
fn quoted(out: &mut String, text: &str) {
    if !text.contains([',', '"', '\r', '\n']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    out.push_str(&text.replace('"', "\"\""));
    out.push('"');
}
