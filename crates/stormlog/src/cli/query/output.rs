//! Prints rows for people and for programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use stormlog_format::json::{Layout, NonFinite, Writer};
use stormlog_format::spreadsheet::{ROW_END, protected, push_row};
use stormlog_format::{Map, Value, python_str};
use stormlog_report::escape::for_terminal;

use super::columns::Columns;
use super::table::{Table, Widths};
use crate::console::Console;

/// The column widths of a streamed table come from this many rows at its start. A longer cell in a
/// later row shifts the rest of its line.
const MEASURED: usize = 4096;

/// The rows of an answer.
pub(crate) struct Rows<I> {
    columns: Columns,
    maps: I,
    /// The JSON document that replaces the list of rows.
    document: Option<Map>,
    /// Whether there may be more rows than fit into memory. All rows have the same keys.
    is_stream: bool,
}

impl<I: Iterator<Item = Map>> Rows<I> {
    pub(crate) fn new(columns: Columns, rows: I) -> Self {
        Self {
            columns,
            maps: rows,
            document: None,
            is_stream: false,
        }
    }

    pub(crate) fn streamed(mut self) -> Self {
        self.is_stream = true;
        self
    }

    pub(crate) fn with_document(mut self, document: Map) -> Self {
        self.document = Some(document);
        self
    }
}

/// Output flags of rows with plain cells.
#[derive(Debug, Args)]
pub(crate) struct Flat {
    #[command(flatten)]
    form: FlatForm,
    /// Print exact numbers and unescaped text, on terminals and in CSV too
    #[arg(long)]
    raw: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is a command line flag"
)]
struct FlatForm {
    /// Print a JSON list
    #[arg(long)]
    json: bool,
    /// Print one JSON object per line
    #[arg(long)]
    jsonl: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
    /// Print a table (the default)
    #[arg(long)]
    table: bool,
}

/// Output flags of rows with nested values.
#[derive(Debug, Args)]
pub(crate) struct Nested {
    #[command(flatten)]
    form: NestedForm,
    /// Print exact numbers and full text, on terminals too
    #[arg(long)]
    raw: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct NestedForm {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print one JSON object per line
    #[arg(long)]
    jsonl: bool,
    /// Print a table (the default)
    #[arg(long)]
    table: bool,
}

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Jsonl,
    Csv,
    Table,
}

impl Flat {
    pub(crate) fn print<I: Iterator<Item = Map>>(
        &self,
        rows: Rows<I>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        let form = match &self.form {
            FlatForm { json: true, .. } => Form::Json,
            FlatForm { jsonl: true, .. } => Form::Jsonl,
            FlatForm { csv: true, .. } => Form::Csv,
            _ => Form::Table,
        };
        print(rows, form, self.raw, self.output.as_deref(), console)
    }
}

impl Nested {
    pub(crate) fn print<I: Iterator<Item = Map>>(
        &self,
        rows: Rows<I>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        let form = match &self.form {
            NestedForm { json: true, .. } => Form::Json,
            NestedForm { jsonl: true, .. } => Form::Jsonl,
            NestedForm { .. } => Form::Table,
        };
        print(rows, form, self.raw, self.output.as_deref(), console)
    }
}

fn print<I: Iterator<Item = Map>>(
    rows: Rows<I>,
    form: Form,
    raw: bool,
    output: Option<&Path>,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    let to_terminal = console.out_is_terminal && output.is_none();
    let printer = Printer {
        form,
        raw,
        terminal_width: to_terminal.then(|| console.width()),
    };
    match output {
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, &mut *console.out);
            printer.print(rows, &mut out)?;
            out.flush()?;
        }
        Some(path) => {
            let context = || format!("cannot write '{}'", path.display());
            let mut out = BufWriter::new(File::create(path).with_context(context)?);
            printer.print(rows, &mut out).with_context(context)?;
            out.flush().with_context(context)?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Printer {
    form: Form,
    raw: bool,
    /// `None` when the output is not a terminal.
    terminal_width: Option<usize>,
}

impl Printer {
    fn print<I: Iterator<Item = Map>>(
        self,
        rows: Rows<I>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        match self.form {
            Form::Json => match rows.document {
                Some(document) => {
                    writeln!(out, "{}", writer(Layout::Indented).map_to_string(&document))?;
                    Ok(())
                }
                None => json_list(rows.maps, out),
            },
            Form::Jsonl => {
                for row in rows.maps {
                    writeln!(out, "{}", writer(Layout::Line).map_to_string(&row))?;
                }
                Ok(())
            }
            Form::Csv => self.csv(rows.columns, rows.maps, out),
            Form::Table => {
                let terminal_width = self.terminal_width.filter(|_| !self.raw);
                let mut maps = rows.maps.map(for_table);
                let measured = if rows.is_stream { MEASURED } else { usize::MAX };
                let first: Vec<Map> = maps.by_ref().take(measured).collect();
                let mut maps = maps.peekable();
                let widths = if maps.peek().is_some() {
                    Widths::OfFirstRows
                } else {
                    Widths::OfAllRows
                };
                let columns = rows.columns.of(&first);
                let table = Table::of(&columns, &first, widths, terminal_width);
                table.print(&first, out)?;
                drop(first);
                table.print_more(maps, out)?;
                table.name_dropped(out)
            }
        }
    }

    /// Writes the columns of stormlog 0.3.9; further values are only in JSON.
    fn csv(
        self,
        columns: Columns,
        rows: impl Iterator<Item = Map>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let mut rows = rows
            .map(|mut row| {
                row.remove("effective_status");
                row
            })
            .peekable();
        // Rows of one kind have the same keys.
        let names = match rows.peek() {
            Some(first) => columns.of(std::slice::from_ref(first)),
            None => columns.of(&[]),
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
        out.flush()?;
        Ok(())
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

/// Tables show a session's effective status when it differs from the status in the file.
fn for_table(mut row: Map) -> Map {
    let effective = row.get("effective_status");
    if effective.is_some() && effective == row.get("status") {
        row.remove("effective_status");
    }
    row
}

fn writer(layout: Layout) -> Writer {
    Writer::new(layout).sorted().non_finite(NonFinite::Bare)
}

/// Writes a list of objects one at a time.
fn json_list(rows: impl Iterator<Item = Map>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut text = String::new();
    let mut is_first = true;
    for row in rows {
        text.clear();
        text.push_str(if is_first { "[\n  " } else { ",\n  " });
        is_first = false;
        writer(Layout::Indented).value(&mut text, &Value::Map(row), 1);
        out.write_all(text.as_bytes())?;
    }
    out.write_all(if is_first { b"[]\n" } else { b"\n]\n" })?;
    Ok(())
}

/// A value as one cell: nested values as JSON, others in Python's spelling.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) => writer(Layout::Line).to_string(value),
        value => python_str(value).to_string(),
    }
}
