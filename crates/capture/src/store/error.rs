//! The errors of a sink, which stores events in a directory.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation of a sink failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The session id of a record is not that of the session that the sink records.
    #[error("telemetry sink record session_id does not match the active session")]
    SessionMismatch,
    /// An operation on a file or directory of the sink failed.
    #[error("cannot {what} '{}': {source}", path.display())]
    Io {
        /// The failed action, as a verb that follows "cannot" in the message, such as `write`.
        what: &'static str,
        /// The file or directory that the action was applied to.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk accepts no writes and the buffer is full, so the event was dropped.
    #[error(
        "the sink in '{}' cannot write and its buffer is full; {dropped} events were dropped so far",
        directory.display()
    )]
    BufferFull {
        /// The directory of the sink.
        directory: PathBuf,
        /// How many events this sink has dropped so far.
        dropped: u64,
    },
    /// The files of a sink cannot be renamed, because a recorder still writes them.
    #[error("cannot rename the files of '{}' while a recorder still writes them", directory.display())]
    InUse {
        /// The directory of the sink.
        directory: PathBuf,
    },
    /// The files of a sink cannot be renamed, because another sink in the directory already has the
    /// new names.
    #[error("cannot rename the files of '{}': the new names are taken", directory.display())]
    NamesTaken {
        /// The directory of the sink.
        directory: PathBuf,
    },
    /// A later sink of this process was opened on the same directory, so this sink may no longer
    /// write.
    #[error(
        "another sink of this process has taken over '{}'; use that sink, or give each sink its \
         own directory",
        directory.display()
    )]
    TakenOver {
        /// The directory of the sink.
        directory: PathBuf,
    },
}

impl SinkError {
    /// Makes an error from a system error that an action on a path caused.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}
