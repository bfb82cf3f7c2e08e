//! Marks the directory of a sink with the process that records a session, where the manifest cannot
//! identify that process ([`stormlog_format::RECORDER_MARK`]).

use std::path::Path;

use rustix::fs::{XattrFlags, removexattr, setxattr};
use stormlog_format::{RECORDER_MARK, Text, recorder_mark};

use crate::process::own_identity;

/// Marks a directory with this process. Without a mark, readers identify the recorder of a session
/// by host name and pid, so a directory in which no mark can be written causes no error.
pub(super) fn mark_recorder(directory: &Path, session_id: &Text) {
    let mark = own_identity().and_then(|own| recorder_mark(session_id, &own));
    if let Some(mark) = mark {
        let _ = setxattr(
            directory,
            RECORDER_MARK,
            mark.as_bytes(),
            XattrFlags::empty(),
        );
    }
}

/// Removes the mark of a session that has ended.
pub(super) fn remove_recorder_mark(directory: &Path) {
    let _ = removexattr(directory, RECORDER_MARK);
}
