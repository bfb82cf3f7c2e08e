//! Reads snapshots of PyTorch's CUDA allocator, which show what holds device memory. The pickle
//! that `torch.cuda.memory._dump_snapshot` writes is parsed without Python.
//!
//! A snapshot is hostile input: nothing in the pickle is executed, and parsing does not recurse.
//! Limits apply to the number of values in the pickle, to the number of list items kept in memory,
//! and to the number of values that are read again because the pickle refers to them repeatedly.

mod account;
mod blocks;
mod history;
mod holders;
mod list;
mod owners;
mod read;
mod spans;
mod stack;
mod values;

use std::io::{self, Read as _};
use std::path::Path;

pub use account::{Account, Totals};
pub use blocks::{LiveBlock, SegmentUse};
pub use history::{Action, AllocatorMoment};
pub use holders::Holder;
pub use owners::{Owner, Owners};
pub use read::Snapshot;
pub use spans::Span;
pub use stack::Frame;

use crate::pack;
use crate::regular_file::{self, Refused};

/// Largest snapshot in bytes that is read: three times the size of a snapshot whose history has
/// PyTorch's usual 100,000 entries.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of values in a snapshot: twice the number of values in a snapshot whose history
/// has 100,000 entries. 2^23 values take one gigabyte of memory.
const MOST_VALUES: usize = 1 << 23;

/// Why the snapshot of a CUDA allocator cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Reading the snapshot file failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The snapshot file is larger than 64 MiB.
    #[error("it is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// The pickle of the snapshot has more values (numbers, texts, lists) than are read, because
    /// they would fill the memory.
    #[error("it has more than {MOST_VALUES} values")]
    TooManyValues,
    /// The snapshot refers to its values so often that reading it takes too long.
    #[error("it repeats the same values too often")]
    TooRepetitive,
    /// The file is not a pickle, or the pickle does not contain a snapshot.
    #[error("not a snapshot of PyTorch's allocator ({0})")]
    Malformed(String),
}

/// Whether a file begins with the bytes of a pickle as PyTorch writes it.
pub fn is_pickle(path: &Path) -> bool {
    let mut start = [0; 2];
    let Ok(path) = pack::unpacked(path) else {
        return false;
    };
    let read = regular_file::open(&path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start[0] == 0x80 && (2..=5).contains(&start[1])
}

/// Reads the bytes of a snapshot file, or of one in a pack, as input for [`Snapshot::parse`].
pub fn read(path: &Path) -> Result<Vec<u8>, SnapshotError> {
    let path = pack::unpacked(path).map_err(io::Error::other)?;
    regular_file::read(&path, MOST_BYTES).map_err(|error| match Refused::of(&error) {
        Some(Refused::TooLarge(_)) => SnapshotError::TooLarge,
        _ => error.into(),
    })
}
