//! Prints the rows that a query found: as a table for people, or as JSON, JSONL or CSV for
//! programs.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use stormlog_format::Map;
use stormlog_report::rows::{Form, Printer, Rows};

use crate::console::Console;
use crate::whole_file::{write_in_pieces, write_whole};

/// Output flags of queries whose rows have only simple values.
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
    reason = "each boolean field is a command line flag"
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

/// Output flags of queries whose rows have nested values.
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

impl Flat {
    /// Whether the user wants a table without the exact values.
    pub(crate) fn is_for_people(&self) -> bool {
        let FlatForm {
            json, jsonl, csv, ..
        } = self.form;
        !(json || jsonl || csv || self.raw)
    }

    /// Prints what `text` returns for the width of the terminal, which is `None` for other outputs.
    pub(crate) fn print_text(
        &self,
        text: impl FnOnce(Option<usize>) -> String,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            return write_whole(path, text(None).as_bytes());
        }
        let width = console.out_is_terminal.then(|| console.width());
        Ok(console.out.write_all(text(width).as_bytes())?)
    }

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
        Some(path) => write_in_pieces(path, |out| Ok(printer.print(rows, out)?))?,
    }
    Ok(())
}
