//! Reads CSV tables with one event per row. In tables of stormlog 0.3.9, the metadata cell is the
//! text of a Python dictionary.

use std::path::Path;

use stormlog_format::json::parse;
use stormlog_format::spreadsheet::unprotected;
use stormlog_format::{
    INTEGER_COLUMNS, Map, RecordDefaults, Text, Value, event_from_record, truncate,
};

use super::python_literal;
use super::sessions::ReadParts;
use super::{LoadOptions, OnError};
use crate::bytes::{open, read_error};
use crate::columns::{Chunk, ChunkBuilder};
use crate::damage::{Damage, DamageList};
use crate::load_error::LoadError;
use crate::table_rows::{MOST_COLUMNS, TableRows};

/// Columns with decimal numbers.
const NUMBERS: [&str; 2] = ["timestamp", "memory_mb"];

/// The columns with times; every telemetry table has at least one of them.
const TIMES: [&str; 2] = ["timestamp_ns", "timestamp"];

/// Initial capacity of a chunk (a block of event columns), in rows.
const ROOM: usize = 1 << 10;

/// How to treat white space around the cells of a table.
#[derive(Clone, Copy)]
pub(crate) enum Cells {
    /// White space around cells is kept.
    AsTheyAre,
    /// White space around cells is removed, as in the queries of stormlog 0.3.9.
    Stripped,
}

/// Reads the events of a CSV table.
pub(crate) fn read(
    path: &Path,
    file: &Path,
    options: &LoadOptions<'_>,
    take: &mut dyn FnMut(Chunk),
    cells: Cells,
) -> Result<ReadParts, LoadError> {
    let source = open(file)?;
    let mut table = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(TableRows::new(source.reader));
    let failed = |line: u64, reason: String| LoadError::Csv {
        file: file.into(),
        line,
        reason,
    };
    let mut damage = DamageList::with_most(options.most_damage);
    let broken = |source: std::io::Error| format!("the file ends too early: {source}");
    let header = match table.headers().cloned().map_err(csv::Error::into_kind) {
        Ok(header) => header,
        Err(csv::ErrorKind::Io(source)) if options.on_error == OnError::Raise => {
            return Err(read_error(file, source));
        }
        Err(csv::ErrorKind::Io(source)) => {
            damage.push(|| Damage::of_file(file, broken(source)));
            csv::StringRecord::new()
        }
        Err(_) => return Err(failed(1, "the header is not UTF-8".to_owned())),
    };
    if header.len() > MOST_COLUMNS {
        let reason = format!("the header has more than {MOST_COLUMNS} columns");
        return Err(failed(1, reason));
    }
    // A query does not reject a table without a time column as a whole; it reports an error per
    // row, as stormlog 0.3.9 does.
    let is_query = matches!(cells, Cells::Stripped);
    let is_telemetry = header.iter().any(|name| TIMES.contains(&name));
    let is_broken = !damage.is_empty();
    if !is_query && !is_telemetry && !is_broken {
        return Err(LoadError::NoTelemetryColumns { file: file.into() });
    }
    let defaults = RecordDefaults {
        collector: "legacy.csv".into(),
        ..options.defaults_of(path, "csv")
    };
    let mut builder = ChunkBuilder::with_capacity(ROOM);
    let mut row = csv::StringRecord::new();
    let mut last_byte = 0;
    while !header.is_empty() {
        table.get_mut().start_row();
        let more = table.read_record(&mut row);
        let byte = table.position().byte();
        (options.progress)(byte - last_byte);
        last_byte = byte;
        let position = match &more {
            Ok(_) => row.position(),
            Err(error) => error.position(),
        };
        let position = position.unwrap_or(table.position());
        let (line, start) = (position.line(), position.byte());
        let mut ends_here = false;
        let event = match more {
            Ok(false) => break,
            Ok(true) => record_of(&header, &row, cells).and_then(|record| {
                event_from_record(&record, &defaults).map_err(|error| error.to_string())
            }),
            Err(error) => match error.into_kind() {
                csv::ErrorKind::Io(source) if options.on_error == OnError::Raise => {
                    return Err(read_error(file, source));
                }
                csv::ErrorKind::Io(source) => {
                    ends_here = true;
                    Err(broken(source))
                }
                csv::ErrorKind::Utf8 { err, .. } => Err(err.to_string()),
                _ => Err("the row cannot be read".to_owned()),
            },
        };
        match event {
            Ok(event) => builder.push_event(&event),
            Err(reason) if options.on_error == OnError::Raise => return Err(failed(line, reason)),
            Err(reason) => damage.push(|| Damage {
                file: file.into(),
                line: Some(line),
                bytes: (start < byte).then_some(start..byte),
                field: None,
                reason,
            }),
        }
        builder.pass_if_full(take);
        if ends_here {
            break;
        }
    }
    builder.pass_rest(take);
    Ok(ReadParts::of_file(path, damage.finish(file)))
}

fn record_of(
    header: &csv::StringRecord,
    row: &csv::StringRecord,
    cells: Cells,
) -> Result<Map, String> {
    let mut record = Vec::new();
    for (name, cell) in header.iter().zip(row) {
        let cell = match cells {
            Cells::AsTheyAre => cell,
            Cells::Stripped => stormlog_format::strip(cell),
        };
        let value = if cell.is_empty() {
            // An empty cell of an identity field (job id, ranks, world size) is left out of the
            // record, because a missing identity field differs from one that is null.
            if stormlog_format::IDENTITY_FIELDS.contains(&name) {
                continue;
            }
            if name == "metadata" {
                Value::Map(Map::new())
            } else {
                Value::Null
            }
        } else if INTEGER_COLUMNS.contains(&name) || name == "device_total" {
            integer(name, cell)?
        } else if NUMBERS.contains(&name) {
            Value::Float(
                cell.parse()
                    .map_err(|_| format!("{name} is not a number: '{cell}'"))?,
            )
        } else if name == "metadata" {
            metadata(cell)?
        } else {
            Value::text(unprotected(cell))
        };
        record.push((Text::from(name), value));
    }
    Ok(Map::from_entries(record))
}

fn integer(name: &str, cell: &str) -> Result<Value, String> {
    let text = cell.trim();
    let wrong = || format!("{name} is not an integer: '{cell}'");
    // The digits before a decimal point are parsed as an integer, which is exact; the digits after
    // it are dropped. Only a number with an exponent is parsed as a float.
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if let Ok(value) = whole.parse()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Ok(Value::Int(value));
    }
    match text.parse::<f64>() {
        Ok(value) if text.contains(['e', 'E']) => {
            truncate(value).map(Value::Int).map_err(|_| wrong())
        }
        _ => Err(wrong()),
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
