//! Why a sink could not do what it was asked to.

use std::io;
use std::path::{Path, PathBuf};

/// Why a sink could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// A record names another session than the one being recorded.
    #[error("telemetry sink record session_id does not match the active session")]
    SessionMismatch,
    /// A file or directory of the sink cannot be used.
    #[error("cannot {what} '{}': {source}", path.display())]
    Io {
        /// What was tried, as words that follow "cannot".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// So much waits for a disk that does not take it that no more is kept.
    #[error(
        "the sink in '{}' cannot write and its buffer is full; {dropped} events were dropped so far",
        directory.display()
    )]
    BufferFull {
        /// The sink.
        directory: PathBuf,
        /// How many events this sink has dropped.
        dropped: u64,
    },
    /// A sink that is to be renamed is being written.
    #[error("cannot rename the files of '{}' while a sink records into it", directory.display())]
    InUse {
        /// The sink.
        directory: PathBuf,
    },
    /// A sink that is to be renamed lies beside one that has the new names.
    #[error("cannot rename the files of '{}': the new names are taken", directory.display())]
    NamesTaken {
        /// The sink.
        directory: PathBuf,
    },
    /// Another sink of this process was opened on the directory.
    #[error(
        "another sink of this process has taken over '{}'; use that one, or give each its own directory",
        directory.display()
    )]
    TakenOver {
        /// The sink.
        directory: PathBuf,
    },
}

impl SinkError {
    /// An error of the system while doing something to a path.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}
