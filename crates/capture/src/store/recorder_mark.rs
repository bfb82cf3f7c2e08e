//! Marks the directory of a sink with an extended attribute ([`stormlog_format::RECORDER_MARK`]).
//! The mark identifies the process that records a session. It is needed where the manifest does not
//! name that process, because manifests of stormlog 0.3.9 have no key for it.

use std::path::Path;

use rustix::fs::{XattrFlags, removexattr, setxattr};
use stormlog_format::{RECORDER_MARK, Text, recorder_mark};

use crate::process::own_identity;

/// Writes the identity of this process and the session id into the extended attribute of a
/// directory. An error is ignored, for example on a file system without extended attributes,
/// because readers then identify the recorder of the session by host name and pid.
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

/// Removes the extended attribute that identifies the recording process, because its session has
/// ended.
pub(super) fn remove_recorder_mark(directory: &Path) {
    let _ = removexattr(directory, RECORDER_MARK);
}
