//! The output flags of commands that print rows, and how rows are printed.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use datafusion::execution::SendableRecordBatchStream;
use stormlog_format::Map;
use stormlog_report::rows::{Form, Printer, Rows};

/// Output flags of rows with plain cells.
#[derive(Args, Debug)]
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

#[derive(Args, Debug)]
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

/// Output flags of rows with nested values.
#[derive(Args, Debug)]
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

#[derive(Args, Debug)]
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
    pub(crate) fn print(&self, rows: Rows<impl Iterator<Item = Map>>) -> Result<()> {
        let form = match &self.form {
            FlatForm { json: true, .. } => Form::Json,
            FlatForm { jsonl: true, .. } => Form::Jsonl,
            FlatForm { csv: true, .. } => Form::Csv,
            _ => Form::Table,
        };
        print(rows, form, self.raw, self.output.as_deref())
    }
}

impl Nested {
    pub(crate) fn print(&self, rows: Rows<impl Iterator<Item = Map>>) -> Result<()> {
        let form = match &self.form {
            NestedForm { json: true, .. } => Form::Json,
            NestedForm { jsonl: true, .. } => Form::Jsonl,
            NestedForm { .. } => Form::Table,
        };
        print(rows, form, self.raw, self.output.as_deref())
    }
}

fn print(
    rows: Rows<impl Iterator<Item = Map>>,
    form: Form,
    raw: bool,
    output: Option<&Path>,
) -> Result<()> {
    let out = std::io::stdout();
    let to_terminal = out.is_terminal() && output.is_none();
    let printer = Printer {
        form,
        raw,
        terminal_width: to_terminal.then(terminal_width),
    };
    match output {
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, out.lock());
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

/// The names of the columns of a query result.
pub(crate) fn column_names(answer: &SendableRecordBatchStream) -> Vec<String> {
    let schema = answer.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.collect()
}

/// The width of the terminal in columns, or 80 if it is not known.
pub(crate) fn terminal_width() -> usize {
    const USUAL: usize = 80;
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL } else { columns }
}
