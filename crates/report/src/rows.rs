//! Prints the rows that a query returns: as JSON, JSON lines, CSV or a table.

mod columns;
mod table;

use std::io::{self, Write};

use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::spreadsheet::{ROW_END, protected, push_row};
use stormlog_format::{Map, Value, python_str};

use crate::escape::for_terminal;
pub use columns::Columns;
use table::{Table, Widths};

/// The number of rows at the start of a stream that determine the column widths of its table. A
/// cell of a later row that is wider than its column moves the rest of its line to the right.
const MEASURED: usize = 4096;

/// The rows that a query returns, with the columns in which they are printed.
#[derive(Debug)]
pub struct Rows<I> {
    /// The names of the columns that are printed first, in the order of this list.
    columns: Vec<String>,
    maps: I,
    /// A JSON object that is printed instead of the list of rows when the output format is JSON.
    document: Option<Map>,
    /// Whether there may be more rows than fit into memory. All rows of such a stream have the same
    /// keys.
    is_stream: bool,
}

impl<I: Iterator<Item = Map>> Rows<I> {
    /// Creates rows that are printed with a predefined list of columns, such as [`Columns::RUNS`].
    #[must_use]
    pub fn new(columns: Columns, rows: I) -> Self {
        Self::named(columns.names(), rows)
    }

    /// Creates rows with a list of column names that is only known at run time.
    #[must_use]
    pub fn named(columns: Vec<String>, rows: I) -> Self {
        Self {
            columns,
            maps: rows,
            document: None,
            is_stream: false,
        }
    }

    /// Marks the rows as a stream, of which there may be more than fit into memory.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// Sets a JSON object that is printed instead of the list of rows when the output format is
    /// JSON.
    #[must_use]
    pub fn with_document(mut self, document: Map) -> Self {
        self.document = Some(document);
        self
    }
}

/// The format in which the rows of a query are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON list of the rows, or the JSON document that was set for them.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values.
    Csv,
    /// A table.
    Table,
}

/// Prints rows.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// The output format of the rows.
    pub form: Form,
    /// Whether values are printed as they are. In a table, numbers then have no units and long
    /// cells are not cut; in CSV, text is not protected against being read as a formula.
    pub raw: bool,
    /// The width of the terminal in characters; `None` when the output is not a terminal.
    pub terminal_width: Option<usize>,
}

impl Printer {
    /// Prints the rows to `out` in the chosen format.
    pub fn print<I: Iterator<Item = Map>>(
        self,
        rows: Rows<I>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self.form {
            Form::Json => match rows.document {
                Some(document) => {
                    writeln!(out, "{}", writer(Layout::Indented).map_to_string(&document))
                }
                None => json_list(rows.maps, out),
            },
            Form::Jsonl => {
                for row in rows.maps {
                    writeln!(out, "{}", writer(Layout::Line).map_to_string(&row))?;
                }
                Ok(())
            }
            Form::Csv => self.csv(&rows.columns, rows.maps, out),
            Form::Table => {
                let terminal_width = self.terminal_width.filter(|_| !self.raw);
                let shows_status = has_effective_status(&rows.columns);
                let mut maps = rows
                    .maps
                    .map(|row| if shows_status { row } else { for_table(row) });
                let measured = if rows.is_stream { MEASURED } else { usize::MAX };
                let first: Vec<Map> = maps.by_ref().take(measured).collect();
                let mut maps = maps.peekable();
                let widths = if maps.peek().is_some() {
                    Widths::OfFirstRows
                } else {
                    Widths::OfAllRows
                };
                let columns = columns::of_rows(&rows.columns, &first);
                let table = Table::of(&columns, &first, widths, terminal_width);
                table.print(&first, out)?;
                drop(first);
                table.print_more(maps, out)?;
                table.name_dropped(out)
            }
        }
    }

    /// Prints CSV with the columns of stormlog 0.3.9. The column `effective_status` (the current
    /// status of a session) is left out unless `columns` contains it, for example because an SQL
    /// query over a lake selects it.
    fn csv(
        self,
        columns: &[String],
        rows: impl Iterator<Item = Map>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let shows_status = has_effective_status(columns);
        let mut rows = rows
            .map(|mut row| {
                if !shows_status {
                    row.remove(EFFECTIVE_STATUS);
                }
                row
            })
            .peekable();
        // All rows of a query have the same keys, so the first row determines the columns.
        let names = match rows.peek() {
            Some(first) => columns::of_rows(columns, std::slice::from_ref(first)),
            None => columns.to_vec(),
        };
        let mut text = String::new();
        push_row(&mut text, &names, ROW_END);
        for row in rows {
            let cells = names.iter().map(|name| self.csv_cell(row.get(name)));
            push_row(&mut text, cells, ROW_END);
            out.write_all(text.as_bytes())?;
            text.clear();
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn csv_cell(self, value: Option<&Value>) -> String {
        let text = match value {
            None | Some(Value::Null) => return String::new(),
            Some(value @ (Value::Text(_) | Value::List(_) | Value::Map(_))) => cell(value),
            Some(number) => return cell(number),
        };
        let text = if self.terminal_width.is_some() {
            for_terminal(&text).into_owned()
        } else {
            text
        };
        if self.raw {
            text
        } else {
            protected(&text).into_owned()
        }
    }
}

/// The key of a session's current status, which stormlog 0.3.9 does not have; the key `status`
/// contains the status that the manifest states.
const EFFECTIVE_STATUS: &str = "effective_status";

fn has_effective_status(columns: &[String]) -> bool {
    columns.iter().any(|name| name == EFFECTIVE_STATUS)
}

/// Prepares a row for a table: the current status of a session (`effective_status`) is shown only
/// when it differs from `status`, the status that the manifest states.
fn for_table(mut row: Map) -> Map {
    let effective = row.get(EFFECTIVE_STATUS);
    if effective.is_some() && effective == row.get("status") {
        row.remove(EFFECTIVE_STATUS);
    }
    row
}

fn writer(layout: Layout) -> Writer {
    Writer::new(layout).sorted().non_finite(NonFinite::Bare)
}

/// Prints a JSON list one object at a time, without holding all rows in memory.
fn json_list(rows: impl Iterator<Item = Map>, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    let mut is_first = true;
    for row in rows {
        text.clear();
        text.push_str(if is_first { "[\n  " } else { ",\n  " });
        is_first = false;
        writer(Layout::Indented).value(&mut text, &Value::Map(row), 1);
        out.write_all(text.as_bytes())?;
    }
    out.write_all(if is_first { b"[]\n" } else { b"\n]\n" })
}

/// Formats a value as one cell: nested values as JSON, all others as Python prints them.
pub fn cell(value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) => writer(Layout::Line).to_string(value),
        value => python_str(value).to_string(),
    }
}
