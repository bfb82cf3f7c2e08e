//! Rewrites a group of closed segments into one segment, in short parts with pauses between them.
//!
//! A first pass over the segments selects the lines that stay; a second pass copies these lines
//! unchanged to a temporary file. Each pass reads blocks of [`BLOCK`] bytes, so large
//! segments do not fill the memory. A rewrite needs memory for the longest line, one bit for each
//! line, and the tracks that [`select`](super::select) follows. The old segments stay unchanged
//! until the writer has announced the rewrite in the manifest.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use stormlog_format::scan::Scanner;
use stormlog_format::{
    RecordDefaults, Rewriting, Segment, Thinned, Value, event_from_record, json, signed,
};

use super::MERGED_INTERVAL_NS;
use super::select::{Sample, Selected, Selection};
use crate::files::{create_new, open_regular, remove_if_exists};
use crate::kept_file::KeptFile;

/// How many bytes of a segment are read at a time, which takes about a millisecond.
const BLOCK: usize = 128 << 10;

/// The longest line, in bytes, that a rewrite accepts. A segment with a longer line is not thinned.
const LONGEST_LINE: usize = 16 << 20;

/// The suffix of the temporary file to which a rewrite copies the lines that stay.
pub(crate) const TEMPORARY_SUFFIX: &str = ".thin.tmp";

/// Whether a file is a temporary file that a killed rewrite of segments left.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(stormlog_format::SEGMENT_PREFIX) && name.ends_with(TEMPORARY_SUFFIX)
}

/// A rewrite of several segments into one, which is done in short parts by calls of
/// [`work`](Self::work).
#[derive(Debug)]
pub(crate) struct Rewrite {
    /// The segments that are rewritten, oldest first, and the paths of their files.
    inputs: Vec<Segment>,
    paths: Vec<PathBuf>,
    interval_ns: i64,
    temporary: PathBuf,
    pass: Pass,
}

#[derive(Debug)]
enum Pass {
    Select(Blocks, Box<Selection>),
    Copy(Blocks, Selected, Output),
    Done(Outcome),
    /// The rewrite has failed. [`Rewrite::work`] also sets this state while it computes the next
    /// state; if an error occurs meanwhile, this state remains.
    Failed,
}

/// The result of a rewrite, before the files of the segments are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every line of the segments stays and nothing needs to be merged, so the rewrite would change
    /// nothing.
    Unchanged,
    /// The temporary file with the remaining lines is complete and on disk.
    Written {
        event_count: i64,
        size_bytes: i64,
        samples_dropped: i64,
        until_ns: i64,
    },
}

/// What happened to the old files of segments whose lines are now in another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldFiles {
    Deleted,
    /// Some of the old files could not be deleted.
    Left,
}

impl Rewrite {
    /// Prepares to rewrite segments into one segment that is thinned to `interval_ns`; no file is
    /// read before [`work`](Self::work).
    pub(crate) fn begin(directory: &Path, inputs: Vec<Segment>, interval_ns: i64) -> Self {
        let paths: Vec<PathBuf> = inputs
            .iter()
            .map(|segment| directory.join(&*segment.filename.to_str_lossy()))
            .collect();
        let first = inputs
            .first()
            .map(|segment| segment.filename.to_str_lossy());
        let first = first.unwrap_or_default();
        let pid = std::process::id();
        Self {
            temporary: directory.join(format!("{first}.{pid}{TEMPORARY_SUFFIX}")),
            pass: Pass::Select(
                Blocks::of(paths.clone()),
                Box::new(Selection::new(interval_ns)),
            ),
            inputs,
            paths,
            interval_ns,
        }
    }

    pub(crate) fn inputs(&self) -> &[Segment] {
        &self.inputs
    }

    /// The time interval to which the segments are thinned.
    pub(crate) fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    /// Continues the rewrite until the time `until`; returns the outcome when the rewrite is
    /// complete, otherwise `None`.
    pub(crate) fn work(&mut self, until: Instant) -> io::Result<Option<Outcome>> {
        loop {
            match std::mem::replace(&mut self.pass, Pass::Failed) {
                Pass::Select(mut blocks, mut selection) => {
                    let more = blocks.next(&mut |line| line.select(&mut selection))?;
                    self.pass = if more {
                        Pass::Select(blocks, selection)
                    } else {
                        self.selected(selection.finish())?
                    };
                }
                Pass::Copy(mut blocks, selected, mut output) => {
                    let mut result = Ok(());
                    let more = blocks.next(&mut |line| {
                        if result.is_ok() {
                            result = output.take(line.text, &selected);
                        }
                    })?;
                    result?;
                    self.pass = if more {
                        Pass::Copy(blocks, selected, output)
                    } else {
                        Pass::Done(self.written(&selected, output)?)
                    };
                }
                Pass::Done(outcome) => {
                    self.pass = Pass::Done(outcome.clone());
                    return Ok(Some(outcome));
                }
                Pass::Failed => return Err(io::ErrorKind::InvalidData.into()),
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    fn selected(&self, selected: Selected) -> io::Result<Pass> {
        if selected.dropped == 0 && self.inputs.len() == 1 {
            return Ok(Pass::Done(Outcome::Unchanged));
        }
        let output = Output::create(&self.temporary)?;
        Ok(Pass::Copy(Blocks::of(self.paths.clone()), selected, output))
    }

    fn written(&self, selected: &Selected, mut output: Output) -> io::Result<Outcome> {
        output.write()?;
        // After a crash, the size of the first segment's file shows whether the rewrite had already
        // replaced the file, so the new size must differ from the old one.
        if self.inputs.first().map(|segment| segment.size_bytes) == Some(signed(output.bytes)) {
            output.pending.push(b'\n');
            output.write()?;
        }
        output.file.get()?.sync_all()?;
        Ok(Outcome::Written {
            event_count: signed(output.events),
            size_bytes: signed(output.bytes),
            samples_dropped: signed(selected.dropped),
            until_ns: selected.latest_ns,
        })
    }

    /// The entry in the manifest that says which segments this rewrite is about to replace; `None`
    /// when the rewrite would change nothing or is not complete.
    pub(crate) fn announcement(&self) -> Option<Rewriting> {
        let Pass::Done(Outcome::Written {
            event_count,
            size_bytes,
            samples_dropped,
            until_ns,
        }) = self.pass
        else {
            return None;
        };
        let mut names = self.inputs.iter().map(|segment| segment.filename.clone());
        let complete = |segment: &&Segment| segment.thinned_interval_ns <= MERGED_INTERVAL_NS;
        let thinned = Thinned {
            samples_dropped,
            segments: signed(self.inputs.iter().filter(complete).count()),
            until_ns,
        };
        Some(Rewriting {
            segment: names.next()?,
            replaces: names.collect(),
            event_count,
            size_bytes,
            thinned_interval_ns: self.interval_ns,
            thinned: thinned.reported().unwrap_or_default(),
        })
    }

    /// Renames the temporary file to the name of the first old segment and deletes the other old
    /// segments. The files of segments may be replaced only after the manifest has announced the
    /// rewrite.
    pub(crate) fn replace_files(&self) -> io::Result<OldFiles> {
        let mut paths = self.paths.iter();
        if let Some(first) = paths.next() {
            std::fs::rename(&self.temporary, first)?;
        }
        let mut files = OldFiles::Deleted;
        for path in paths {
            if remove_if_exists(path).is_err() {
                files = OldFiles::Left;
            }
        }
        Ok(files)
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        // If the temporary file was renamed to a segment, it no longer exists under its old name,
        // and deleting it does nothing.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// The temporary file to which the second pass copies the lines that stay.
#[derive(Debug)]
struct Output {
    file: KeptFile,
    pending: Vec<u8>,
    bytes: u64,
    events: u64,
    line: usize,
}

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        // A file with this name was left by a killed process: this process has locked the
        // directory, so no other process writes it now.
        remove_if_exists(path)?;
        Ok(Self {
            file: KeptFile::new(create_new(path)?)?,
            pending: Vec::new(),
            bytes: 0,
            events: 0,
            line: 0,
        })
    }

    fn take(&mut self, line: &[u8], selected: &Selected) -> io::Result<()> {
        let survives = selected.survives(self.line);
        self.line += 1;
        if !survives {
            return Ok(());
        }
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
        self.events += 1;
        if self.pending.len() >= BLOCK {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.get()?.write_all(&self.pending)?;
        self.bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Reads the lines of several segment files in order, one block of [`BLOCK`] bytes at a time.
#[derive(Debug, Default)]
struct Blocks {
    files: Vec<PathBuf>,
    next: usize,
    open: Option<KeptFile>,
    buffer: Vec<u8>,
}

impl Blocks {
    fn of(files: Vec<PathBuf>) -> Self {
        Self {
            files,
            ..Self::default()
        }
    }

    /// Passes each line of the next block that is not blank to `take`, without its newline. Returns
    /// false at the end of the last file.
    fn next(&mut self, take: &mut dyn FnMut(Line<'_, '_>)) -> io::Result<bool> {
        let Some(file) = &self.open else {
            let Some(path) = self.files.get(self.next) else {
                return Ok(false);
            };
            self.open = Some(KeptFile::new(open_regular(path)?)?);
            self.next += 1;
            return Ok(true);
        };
        let block = file.get()?.take(BLOCK as u64);
        let read = { block }.read_to_end(&mut self.buffer)?;
        let is_end = read == 0;
        let whole = memchr::memrchr(b'\n', &self.buffer).map_or(0, |end| end + 1);
        give_lines(&self.buffer[..whole], take);
        self.buffer.drain(..whole);
        if is_end {
            // The last line of a segment file may lack its newline. If the last line of a file is
            // valid JSON, a killed writer left it complete except for the newline, and it counts as
            // a line.
            if json::parse(&self.buffer).is_ok() {
                give_lines(&self.buffer, take);
            }
            self.buffer.clear();
            self.open = None;
        } else if self.buffer.len() > LONGEST_LINE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(true)
    }
}

fn give_lines<'t>(text: &'t [u8], take: &mut dyn FnMut(Line<'_, 't>)) {
    let mut scanner = Scanner::of_lines();
    let mut start = 0;
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |end| start + end);
        let line = Line {
            scanner: &mut scanner,
            block: text,
            start,
            text: &text[start..end],
        };
        if !line.text.iter().all(u8::is_ascii_whitespace) {
            take(line);
        }
        start = end + 1;
    }
}

/// A line of a block of text, with the scanner that parses the line.
struct Line<'s, 't> {
    scanner: &'s mut Scanner<'t>,
    block: &'t [u8],
    start: usize,
    text: &'t [u8],
}

impl Line<'_, '_> {
    fn select(self, selection: &mut Selection) {
        match self.scanner.scan(self.block, self.start) {
            Some((record, stop)) if stop == self.start + self.text.len() => {
                selection.look(Sample::of_record(&record).as_ref());
            }
            _ => {
                // A record that the scanner cannot read, such as one of another version, is parsed
                // as an event; a damaged line is kept.
                let event = match json::parse(self.text) {
                    Ok(Value::Map(record)) => {
                        event_from_record(&record, &RecordDefaults::default()).ok()
                    }
                    _ => None,
                };
                selection.look(event.as_ref().and_then(Sample::of_event).as_ref());
            }
        }
    }
}
