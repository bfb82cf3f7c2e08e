//! A table with one event per row: ours, and the reference's, whose metadata cell is the
//! text of a Python dictionary.

use std::path::Path;

use stormlog_format::json::parse;
use stormlog_format::{
    Map, RecordDefaults, Text, Value, event_from_record, stable_legacy_session_id,
};

use super::bytes::open;
use super::damage::Damage;
use super::error::LoadError;
use super::python_literal;
use super::sessions::{ReadParts, absolute};
use super::{LoadOptions, OnError};
use crate::columns::{Chunk, ChunkBuilder};

/// Columns that hold integers; decimal text is accepted and cut.
const INTEGERS: [&str; 21] = [
    "schema_version",
    "timestamp_ns",
    "sampling_interval_ms",
    "pid",
    "rank",
    "local_rank",
    "world_size",
    "device_id",
    "allocator_allocated_bytes",
    "allocator_reserved_bytes",
    "allocator_active_bytes",
    "allocator_inactive_bytes",
    "allocator_change_bytes",
    "device_used_bytes",
    "device_free_bytes",
    "device_total_bytes",
    "memory_allocated",
    "memory_reserved",
    "memory_change",
    "total_memory",
    "device_total",
];

/// Columns that hold numbers with a fraction.
const NUMBERS: [&str; 2] = ["timestamp", "memory_mb"];

/// Reads a table.
pub(crate) fn read(
    path: &Path,
    file: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
) -> Result<ReadParts, LoadError> {
    let source = open(file)?;
    let mut table = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(source.reader);
    let failed = |line: u64, reason: String| LoadError::Csv {
        file: file.into(),
        line,
        reason,
    };
    let header = table
        .headers()
        .map_err(|error| failed(1, error.to_string()))?
        .clone();
    let defaults = RecordDefaults {
        permissive_legacy: options.permissive_legacy,
        collector: "legacy.csv".into(),
        session_id: Some(Value::Text(stable_legacy_session_id(&[
            absolute(path).into(),
            "csv".into(),
        ]))),
        ..RecordDefaults::default()
    };
    let mut parts = ReadParts::default();
    let mut builder = ChunkBuilder::with_capacity(0);
    let mut row = csv::StringRecord::new();
    let mut last_byte = 0;
    loop {
        let line = table.position().line();
        let more = table.read_record(&mut row);
        let byte = table.position().byte();
        (options.progress)(byte - last_byte);
        let event = match more {
            Ok(false) => break,
            Ok(true) => record_of(&header, &row).and_then(|record| {
                event_from_record(&record, &defaults).map_err(|error| error.to_string())
            }),
            Err(error) => Err(error.to_string()),
        };
        match event {
            Ok(event) => builder.push_event(&event),
            Err(reason) if options.on_error == OnError::Raise => return Err(failed(line, reason)),
            Err(reason) => parts.damage.push(Damage {
                file: file.into(),
                line: Some(line),
                bytes: Some(last_byte..byte),
                field: None,
                reason,
            }),
        }
        last_byte = byte;
        if let Some(chunk) = builder.take_if_full() {
            take(chunk);
        }
    }
    if builder.len() > 0 {
        take(builder.finish());
    }
    parts.files.push((absolute(path), None));
    Ok(parts)
}

fn record_of(header: &csv::StringRecord, row: &csv::StringRecord) -> Result<Map, String> {
    let mut record = Vec::new();
    for (name, cell) in header.iter().zip(row) {
        let value = if cell.is_empty() {
            // A missing identity is not the same as one of null.
            if stormlog_format::IDENTITY_FIELDS.contains(&name) {
                continue;
            }
            if name == "metadata" {
                Value::Map(Map::new())
            } else {
                Value::Null
            }
        } else if INTEGERS.contains(&name) {
            integer(name, cell)?
        } else if NUMBERS.contains(&name) {
            Value::Float(
                cell.parse()
                    .map_err(|_| format!("{name} is not a number: '{cell}'"))?,
            )
        } else if name == "metadata" {
            metadata(cell)?
        } else {
            Value::text(cell)
        };
        record.push((Text::from(name), value));
    }
    Ok(Map::from_entries(record))
}

fn integer(name: &str, cell: &str) -> Result<Value, String> {
    if let Ok(value) = cell.trim().parse() {
        return Ok(Value::Int(value));
    }
    let whole = cell.trim().split('.').next().unwrap_or_default();
    match (whole.parse(), cell.trim().parse::<f64>()) {
        (Ok(value), Ok(_)) => Ok(Value::Int(value)),
        _ => Err(format!("{name} is not an integer: '{cell}'")),
    }
}

fn metadata(cell: &str) -> Result<Value, String> {
    let parsed = parse(cell.as_bytes())
        .ok()
        .or_else(|| python_literal::parse(cell));
    match parsed {
        Some(Value::Map(map)) => Ok(Value::Map(map)),
        _ => Err("metadata is neither JSON nor the text of a Python dictionary".into()),
    }
}
