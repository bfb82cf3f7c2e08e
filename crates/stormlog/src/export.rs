//! Writes events as JSON, JSONL or CSV, plain or compressed.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use stormlog_analysis::Events;
use stormlog_analysis::compression::Compression;
use stormlog_format::json::{Layout, Writer};
use stormlog_format::spreadsheet::{push_event_header, push_event_row};
use stormlog_format::{Event, Value};

/// The formats in which events can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EventFormat {
    /// One list, indented
    Json,
    /// One record per line, as in the segments of a sink
    Jsonl,
    /// A table with a header; the column metadata contains JSON
    Csv,
}

/// Writes events as JSON, JSONL or CSV.
pub(crate) struct EventWriter<'a> {
    format: EventFormat,
    out: &'a mut dyn Write,
    events: usize,
}

impl<'a> EventWriter<'a> {
    pub(crate) fn new(format: EventFormat, out: &'a mut dyn Write) -> Self {
        Self {
            format,
            out,
            events: 0,
        }
    }

    pub(crate) fn write(&mut self, events: &Events) -> io::Result<()> {
        for event in events.iter() {
            self.event(&event.to_event())?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let is_first = self.events == 0;
        self.events += 1;
        let mut text = String::new();
        match self.format {
            EventFormat::Csv => {
                if is_first {
                    push_event_header(&mut text);
                }
                push_event_row(&mut text, &event.to_record());
            }
            EventFormat::Json => {
                text.push_str(if is_first { "[\n  " } else { ",\n  " });
                let record = Value::Map(event.to_record());
                Writer::new(Layout::Indented).value(&mut text, &record, 1);
            }
            EventFormat::Jsonl => {
                text = event.to_line();
                text.push('\n');
            }
        }
        self.out.write_all(text.as_bytes())
    }

    /// Ends the output and returns the number of events that were written.
    pub(crate) fn finish(self) -> io::Result<usize> {
        let mut end = String::new();
        match self.format {
            EventFormat::Csv if self.events == 0 => push_event_header(&mut end),
            EventFormat::Json => end.push_str(if self.events == 0 { "[]" } else { "\n]" }),
            EventFormat::Csv | EventFormat::Jsonl => {}
        }
        self.out.write_all(end.as_bytes())?;
        self.out.flush()?;
        Ok(self.events)
    }
}

/// An output file that is compressed with gzip or zstd while it is written, or not compressed.
pub(crate) enum Compressed<'a> {
    Plain(BufWriter<&'a mut File>),
    Gzip(flate2::write::GzEncoder<BufWriter<&'a mut File>>),
    Zstd(zstd::Encoder<'static, BufWriter<&'a mut File>>),
}

impl<'a> Compressed<'a> {
    pub(crate) fn new(file: &'a mut File, compression: Option<Compression>) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(match compression {
            None => Self::Plain(file),
            Some(Compression::Gzip) => Self::Gzip(flate2::write::GzEncoder::new(
                file,
                flate2::Compression::default(),
            )),
            Some(Compression::Zstd) => Self::Zstd(zstd::Encoder::new(file, 3)?),
        })
    }

    /// Writes the buffered data and the end of the compressed stream. Without this call, the file
    /// may be incomplete.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Gzip(encoder) => encoder.finish()?.flush(),
            Self::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for Compressed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
