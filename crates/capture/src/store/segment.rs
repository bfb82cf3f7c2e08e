//! Appends lines to one segment file, and cuts off a torn line, of which a killed process wrote
//! only the beginning. A segment writer knows nothing about sessions.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::files::{create_to_append, open_to_append};
use crate::kept_file::KeptFile;

/// Whether a name from a manifest is a plain file name, so that the file is inside the sink.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(only)), None) if only == name
    )
}

/// An open segment file, to which lines are appended.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    path: PathBuf,
    file: Arc<KeptFile>,
    size_bytes: u64,
}

impl SegmentWriter {
    /// Creates a segment file; fails when a file or a link with the same name exists.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let file = KeptFile::new(create_to_append(&path)?)?;
        Ok(Self {
            path,
            file: Arc::new(file),
            size_bytes: 0,
        })
    }

    /// Opens a segment file and counts its events; text after its last newline is the torn line of a
    /// killed writer and is cut off.
    pub(crate) fn open(path: PathBuf) -> io::Result<(Self, u64)> {
        let file = open_to_append(&path)?;
        let lines = Lines::of(&file)?;
        if lines.torn_bytes > 0 {
            file.set_len(lines.whole_bytes)?;
        }
        let writer = Self {
            path,
            file: Arc::new(KeptFile::new(file)?),
            size_bytes: lines.whole_bytes,
        };
        Ok((writer, lines.event_count))
    }

    /// Appends complete lines to the segment: all of them or, when writing fails, none.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        let (mut file, metadata) = self.file.checked().map_err(AppendError::Closed)?;
        // A segment file that was deleted would accept the lines, but no reader could find them.
        if metadata.nlink() == 0 {
            return Err(AppendError::Torn(io::ErrorKind::NotFound.into()));
        }
        let Err(error) = file.write_all(lines) else {
            self.size_bytes += lines.len() as u64;
            return Ok(());
        };
        let cut = self
            .file
            .get()
            .and_then(|file| file.set_len(self.size_bytes));
        match cut {
            Ok(()) => Err(AppendError::Clean(error)),
            Err(_) => Err(AppendError::Torn(error)),
        }
    }

    /// The segment file, for a caller that writes the file to disk without blocking the segment
    /// writer.
    pub(crate) fn file(&self) -> Arc<KeptFile> {
        Arc::clone(&self.file)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Why lines could not be appended to a segment, and in which state the segment is.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The segment is unchanged after the failure, so appending the same lines can be tried again.
    Clean(io::Error),
    /// The segment ends with a part of the lines that were to be appended, and can no longer be
    /// written.
    Torn(io::Error),
    /// The program closed the descriptor of the segment; the file is unchanged.
    Closed(io::Error),
}

/// How many complete lines a segment has, and how many bytes of a torn last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The number of complete lines that are not blank.
    pub(crate) event_count: u64,
    /// The number of bytes up to the end of the last complete line.
    pub(crate) whole_bytes: u64,
    /// The number of bytes after the last complete line.
    pub(crate) torn_bytes: u64,
    /// Whether the bytes after the last complete line are more than white space.
    pub(crate) torn_event: bool,
}

impl Lines {
    /// Counts the lines of a file in blocks, because the file may have any size.
    pub(crate) fn of(mut file: impl Read) -> io::Result<Self> {
        let mut lines = Self::default();
        let mut piece = vec![0; 64 << 10];
        loop {
            let read = match file.read(&mut piece) {
                Ok(0) => return Ok(lines),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in &piece[..read] {
                lines.torn_bytes += 1;
                if *byte == b'\n' {
                    lines.event_count += u64::from(lines.torn_event);
                    lines.whole_bytes += lines.torn_bytes;
                    lines.torn_bytes = 0;
                    lines.torn_event = false;
                } else if !matches!(byte, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f) {
                    lines.torn_event = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_tail_is_cut_before_anything_is_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment-000001.jsonl");
        std::fs::write(&path, "{\"n\": 1}\n\n{\"n\": 2}\n{\"n\"").unwrap();
        let (mut writer, event_count) = SegmentWriter::open(path.clone()).unwrap();
        assert_eq!((event_count, writer.size_bytes()), (2, 19));
        writer.append(b"{\"n\": 3}\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"n\": 1}\n\n{\"n\": 2}\n{\"n\": 3}\n"
        );
        assert_eq!(writer.size_bytes(), 28);
    }

    #[test]
    fn a_removed_file_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment-000001.jsonl");
        let mut writer = SegmentWriter::create(path.clone()).unwrap();
        assert!(SegmentWriter::create(path.clone()).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            writer.append(b"{}\n"),
            Err(AppendError::Torn(error)) if error.kind() == io::ErrorKind::NotFound
        ));
    }
}
