//! Reads snapshots of PyTorch's CUDA allocator, which show what holds device memory. The pickle
//! that `torch.cuda.memory._snapshot` returns is parsed without Python.
//!
//! A snapshot is hostile input. Nothing in a pickle is executed, parsing does not recurse, and the
//! amounts read, kept and repeated are bounded.

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
pub use history::{Action, Moment};
pub use holders::Holder;
pub use owners::{Owner, Owners};
pub use read::Snapshot;
pub use spans::Span;
pub use stack::Frame;

use crate::pack;
use crate::regular_file::{self, Refused};

/// Largest snapshot in bytes, three times what the usual 100,000 entries need.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of values in a snapshot, twice what such a file contains. So many values take one
/// gigabyte of memory.
const MOST_VALUES: usize = 1 << 23;

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is too large.
    #[error("it is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    /// The file would fill the memory.
    #[error("it has more than {MOST_VALUES} values")]
    TooManyValues,
    /// The file refers to its values so often that reading it takes too long.
    #[error("it repeats the same values too often")]
    TooRepetitive,
    /// The file is not a pickle, or a pickle of something else.
    #[error("not a snapshot of PyTorch's allocator ({0})")]
    Malformed(String),
}

/// Whether a file begins like PyTorch's pickles.
pub fn is_pickle(path: &Path) -> bool {
    let mut start = [0; 2];
    let Ok(path) = pack::unpacked(path) else {
        return false;
    };
    let read = regular_file::open(&path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start[0] == 0x80 && (2..=5).contains(&start[1])
}

/// Reads the bytes of a snapshot, for [`Snapshot::parse`].
pub fn read(path: &Path) -> Result<Vec<u8>, SnapshotError> {
    let path = pack::unpacked(path).map_err(io::Error::other)?;
    regular_file::read(&path, MOST_BYTES).map_err(|error| match Refused::of(&error) {
        Some(Refused::TooLarge(_)) => SnapshotError::TooLarge,
        _ => error.into(),
    })
}
