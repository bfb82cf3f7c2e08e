//! Bounds the rows of CSV tables, because the parser keeps a whole row in memory.

use std::io::{self, Read};

/// The longest header and the longest row in bytes. A row has metadata of an event, the header only
/// the names of the columns.
const LONGEST_HEADER: u64 = 1 << 20;
const LONGEST_ROW: u64 = 16 << 20;
/// The largest number of columns of a table.
pub const MOST_COLUMNS: usize = 4096;

/// Reads a table, and fails when its header or one of its rows is too long.
pub struct TableRows<R> {
    reader: R,
    /// Number of bytes that may be read before the row ends.
    left: u64,
}

/// Why reading a table failed: a row is longer than the longest that is read.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a row is longer than an event can be; is a quotation mark not closed?")]
pub struct RowTooLong;

impl<R: Read> TableRows<R> {
    /// Reads a table from its start.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            left: LONGEST_HEADER,
        }
    }

    /// Starts the next row; the caller calls it before it parses the row.
    pub fn start_row(&mut self) {
        self.left = LONGEST_ROW;
    }
}

impl<R: Read> Read for TableRows<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other(RowTooLong));
        }
        let read = self.reader.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}
