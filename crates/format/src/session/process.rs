//! The identity of the process that records a session.

use serde::Serialize;

use crate::number::python_int;
use crate::text::Text;
use crate::value::Map;

/// The identity of a process. The pid alone is not unique: later processes, other machines and
/// other containers use the same pids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessIdentity {
    /// The id of the process.
    pub pid: i64,
    /// When the process was started, in clock ticks after the machine booted.
    pub start_ticks: i64,
    /// The inode number of the process's pid namespace, which differs between containers.
    pub pid_namespace: i64,
    /// The kernel's random id for the current boot of the machine.
    pub boot_id: Text,
}

impl ProcessIdentity {
    /// Parses the identity of a process; `None` when a part of the identity is missing.
    pub fn from_map(map: &Map) -> Option<Self> {
        let number = |key: &str| python_int(map.get(key)?).ok();
        Some(Self {
            pid: number("pid")?,
            start_ticks: number("start_ticks")?,
            pid_namespace: number("pid_namespace")?,
            boot_id: map.text("boot_id")?.clone(),
        })
    }

    /// Whether the pids of two processes can be compared: both processes belong to the same boot of
    /// the same machine and to the same pid namespace.
    pub fn shares_ids_with(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.pid_namespace == other.pid_namespace
    }
}
