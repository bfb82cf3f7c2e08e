//! Checks one file for secrets, and writes a redacted copy if it has any.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use stormlog_analysis::compression::{Compression, without_suffix};
use stormlog_analysis::regular_file::{self, Refused};
use stormlog_analysis::table_rows::{MOST_COLUMNS, RowTooLong, TableRows};
use stormlog_format::Value;
use stormlog_format::json::JsonErrorKind::TooManyValues;
use stormlog_format::json::{Layout, parse};
use stormlog_format::spreadsheet::push_row;
use stormlog_redact::{HIDDEN, LineFilter, is_secret, redacted_json, redacted_str};

use super::{LARGEST, compressed, value_in};

/// The length of the shortest text that is checked for secrets in a binary file; shorter texts are
/// accidental byte sequences.
const SHORTEST_TEXT: usize = 8;

/// A shorter JSON text cannot have more values than are parsed.
const MANY_VALUES: usize = 8 << 20;

/// The result of checking a file for secrets.
pub(super) enum Looked {
    Clean,
    Copied,
    TooLarge,
    Unreadable,
    /// The file is binary and contains a secret, so no redacted copy can be made.
    Secret,
}

/// Checks one file for secrets, and writes a redacted copy if it has any.
pub(super) struct Search<'a> {
    pub(super) file: &'a Path,
    pub(super) copy: &'a Path,
    pub(super) format: Format,
}

/// How the text of a file is divided, according to the file's name without `.gz` or `.zst`.
#[derive(Clone, Copy)]
pub(super) enum Format {
    /// One JSON record per line.
    Lines,
    /// A CSV table.
    Table,
    /// A JSON document.
    Json,
    /// Any other text, or a binary file.
    Other,
}

impl Format {
    pub(super) fn of_name(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default();
        let name = name.to_string_lossy().to_lowercase();
        let plain = without_suffix(&name).unwrap_or(&name);
        match plain.rsplit_once('.') {
            Some((_, "jsonl" | "ndjson")) => Self::Lines,
            Some((_, "csv")) => Self::Table,
            Some((_, "json")) => Self::Json,
            _ => Self::Other,
        }
    }
}

impl Search<'_> {
    pub(super) fn run(&self) -> io::Result<Looked> {
        let Ok(mut source) = regular_file::open(self.file) else {
            return Ok(Looked::Unreadable);
        };
        match Compression::of(&mut source)? {
            Some(compression) => compressed::search(self, compression),
            // The content may be compressed in another way, which hides its secrets.
            None if Compression::of_name(self.file).is_some() && !self.is_text()? => {
                Ok(Looked::Unreadable)
            }
            None => self.run_plain(),
        }
    }

    /// Whether all lines of the file are UTF-8.
    fn is_text(&self) -> io::Result<bool> {
        let mut lines = BufReader::new(regular_file::open(self.file)?);
        let mut line = Vec::new();
        while (&mut lines).take(LARGEST).read_until(b'\n', &mut line)? > 0 {
            if std::str::from_utf8(&line).is_err() {
                return Ok(false);
            }
            line.clear();
        }
        Ok(true)
    }

    pub(super) fn run_plain(&self) -> io::Result<Looked> {
        match self.format {
            Format::Lines => self.lines(),
            Format::Table => self.table(),
            Format::Json => self.document(true),
            Format::Other => self.document(false),
        }
    }

    /// Creates the empty file for a redacted copy in a folder of its own.
    fn begin(&self) -> io::Result<File> {
        if let Some(folder) = self.copy.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(self.copy)
    }

    /// Checks a file for secrets as a whole: a JSON document, any other text, or a binary file.
    fn document(&self, is_json: bool) -> io::Result<Looked> {
        let bytes = match regular_file::read(self.file, LARGEST) {
            Err(error) if Refused::of(&error) == Some(Refused::TooLarge(LARGEST)) => {
                return Ok(Looked::TooLarge);
            }
            read => read?,
        };
        if is_json && let Some(value) = value_in(&bytes) {
            let Some(text) = redacted_json(&value, Layout::Indented) else {
                return Ok(Looked::Clean);
            };
            self.begin()?.write_all(text.as_bytes())?;
            return Ok(Looked::Copied);
        }
        if is_json && has_too_many_values(&bytes) {
            return Ok(Looked::TooLarge);
        }
        let text = String::from_utf8_lossy(&bytes);
        if !is_json && matches!(text, Cow::Owned(_)) && bytes.contains(&0) {
            // The file is binary: it is not valid UTF-8 and contains a zero byte. A log in which
            // only a few bytes are in another encoding contains no zero byte and is checked as
            // text, and so is every file with the extension `.json`.
            let has_secret = texts_in(&bytes).any(|text| hidden_text(text).is_some());
            return Ok(if has_secret {
                Looked::Secret
            } else {
                Looked::Clean
            });
        }
        match hidden_text(&text) {
            None => Ok(Looked::Clean),
            Some(hidden) => {
                self.begin()?.write_all(hidden.as_bytes())?;
                Ok(Looked::Copied)
            }
        }
    }

    /// Checks a file with one record per line. The redacted copy is created only when the first
    /// line with a secret is found.
    fn lines(&self) -> io::Result<Looked> {
        let mut lines = BufReader::with_capacity(1 << 18, regular_file::open(self.file)?);
        let mut copy: Option<BufWriter<File>> = None;
        let (mut line, mut before) = (Vec::new(), 0_u64);
        let mut filter = LineFilter::default();
        loop {
            line.clear();
            let length = (&mut lines).take(LARGEST).read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            if length as u64 == LARGEST || has_too_many_values(&line) {
                return Ok(Looked::TooLarge);
            }
            let hidden = match std::str::from_utf8(&line) {
                Ok(line) => filter.redacted(line).map(String::into_bytes),
                // The line is not JSON, so secrets cannot be found by their keys, but tokens and
                // passwords in the text are still found.
                Err(_) => hidden_text(&String::from_utf8_lossy(&line)).map(String::into_bytes),
            };
            if hidden.is_some() && copy.is_none() {
                let mut begun = BufWriter::new(self.begin()?);
                io::copy(&mut regular_file::open(self.file)?.take(before), &mut begun)?;
                copy = Some(begun);
            }
            if let Some(copy) = &mut copy {
                copy.write_all(hidden.as_deref().unwrap_or(&line))?;
            }
            before += length as u64;
        }
        match copy {
            None => Ok(Looked::Clean),
            Some(mut copy) => copy.flush().map(|()| Looked::Copied),
        }
    }

    /// Checks a CSV table for secrets; a cell of the table may contain JSON.
    fn table(&self) -> io::Result<Looked> {
        if fs::metadata(self.file)?.len() > LARGEST {
            return Ok(Looked::TooLarge);
        }
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(TableRows::new(regular_file::open(self.file)?));
        let mut copy = BufWriter::new(self.begin()?);
        let mut text = String::new();
        let mut names: Vec<String> = Vec::new();
        let mut is_changed = false;
        let mut row = csv::ByteRecord::new();
        loop {
            match reader.read_byte_record(&mut row) {
                Ok(true) if row.len() <= MOST_COLUMNS => {}
                Ok(false) => break,
                Err(error) if !is_too_long(&error) => return Err(error.into()),
                Ok(true) | Err(_) => {
                    fs::remove_file(self.copy)?;
                    return Ok(Looked::TooLarge);
                }
            }
            reader.get_mut().start_row();
            let cells: Vec<_> = row.iter().map(String::from_utf8_lossy).collect();
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let name = names.get(column);
                let hidden = if name.is_some_and(|name| is_secret(name, cell)) {
                    Some(HIDDEN.to_owned())
                } else {
                    hidden_cell(cell)
                };
                is_changed |= hidden.is_some();
                hidden.unwrap_or_else(|| cell.clone().into_owned())
            });
            let cells: Vec<String> = cells.collect();
            text.clear();
            push_row(&mut text, &cells, "\n");
            copy.write_all(text.as_bytes())?;
            if names.is_empty() {
                names = cells;
            }
        }
        copy.flush()?;
        if is_changed {
            return Ok(Looked::Copied);
        }
        fs::remove_file(self.copy)?;
        Ok(Looked::Clean)
    }
}

/// Whether a table cannot be read because a row is too long.
fn is_too_long(error: &csv::Error) -> bool {
    let csv::ErrorKind::Io(error) = error.kind() else {
        return false;
    };
    let cause = error.get_ref();
    cause
        .and_then(|cause| cause.downcast_ref::<RowTooLong>())
        .is_some()
}

/// Whether a JSON text has more values than are parsed, so that its secrets cannot be found by their
/// keys.
fn has_too_many_values(text: &[u8]) -> bool {
    text.len() > MANY_VALUES && matches!(parse(text), Err(error) if error.kind == TooManyValues)
}

/// The text with its secrets redacted; `None` when it contains no secrets.
fn hidden_text(text: &str) -> Option<String> {
    match redacted_str(text) {
        Cow::Owned(hidden) => Some(hidden),
        Cow::Borrowed(_) => None,
    }
}

/// The texts in a binary file: sequences of at least `SHORTEST_TEXT` printable ASCII characters,
/// tabs and line ends.
fn texts_in(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes
        .split(|byte| !matches!(byte, b' '..=b'~' | b'\t' | b'\n'))
        .filter(|text| text.len() >= SHORTEST_TEXT)
        .filter_map(|text| std::str::from_utf8(text).ok())
}

/// The cell of a CSV table with its secrets redacted; `None` when it contains no secrets.
fn hidden_cell(cell: &str) -> Option<String> {
    match parse(cell.as_bytes()) {
        Ok(value @ (Value::Map(_) | Value::List(_))) => redacted_json(&value, Layout::Line),
        _ => hidden_text(cell),
    }
}
