//! Reads a CSV table with one event per row like the diagnostics tab of stormlog 0.3.9: numbers are
//! parsed as floats, empty cells are null, and metadata that is not JSON is empty.

use std::path::Path;

use stormlog_analysis::{Loaded, absolute, loaded_of_events, read_whole};
use stormlog_format::json::parse;
use stormlog_format::{INTEGER_COLUMNS, whole};
use stormlog_format::{
    Map, RecordDefaults, Text, Value, event_from_record, stable_legacy_session_id, strip,
};

use super::gather::shown;

/// The sessions of a table, and a warning for each row that is not an event.
pub(super) fn load(file: &Path) -> (Loaded, Vec<String>) {
    let name = shown(file);
    let failed = |line: u64, reason: &dyn std::fmt::Display| {
        format!("CSV parse error {name}:{line}: {reason}")
    };
    let text = match read_whole(file) {
        Ok(text) => text,
        Err(error) => return (Loaded::default(), vec![failed(1, &error)]),
    };
    let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(&*text);
    let header = match rows.headers().cloned() {
        Ok(header) => header,
        Err(error) => return (Loaded::default(), vec![failed(1, &error)]),
    };
    let id = stable_legacy_session_id(&[absolute(file).into(), "csv".into()]);
    let defaults = RecordDefaults {
        session_id: Some(Value::Text(id)),
        ..RecordDefaults::default()
    };
    let (mut events, mut warnings) = (Vec::new(), Vec::new());
    for (row, line) in rows.records().zip(2..) {
        let event = row.map_err(|error| error.to_string()).and_then(|row| {
            let record = record(&header, &row)?;
            event_from_record(&record, &defaults).map_err(|error| error.to_string())
        });
        match event {
            Ok(event) => events.push(event),
            Err(reason) => warnings.push(failed(line, &reason)),
        }
    }
    (loaded_of_events(file, &events), warnings)
}

fn record(header: &csv::StringRecord, row: &csv::StringRecord) -> Result<Map, String> {
    let mut record = Map::new();
    for (name, cell) in header.iter().zip(row) {
        let cell = strip(cell);
        let value = match name {
            "metadata" => match parse(cell.as_bytes()) {
                Ok(metadata @ Value::Map(_)) => metadata,
                _ => Value::Map(Map::new()),
            },
            _ if cell.is_empty() => Value::Null,
            "timestamp" => Value::Float(number(cell)?),
            _ if INTEGER_COLUMNS.contains(&name) => Value::Int(whole(number(cell)?)),
            _ => Value::text(cell),
        };
        record.insert(Text::from(name), value);
    }
    Ok(record)
}

fn number(cell: &str) -> Result<f64, String> {
    let number = cell.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite());
    number.ok_or_else(|| format!("could not convert string to float: '{cell}'"))
}
