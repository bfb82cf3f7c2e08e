//! The process that records a session, distinguished from every other one.

use crate::number::python_int;
use crate::text::Text;
use crate::value::{Map, Value};

/// What identifies a process: its id alone is used again, by later processes, on other machines
/// and in other containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The id of the process.
    pub pid: i64,
    /// When it was started, in clock ticks since the machine was.
    pub start_ticks: i64,
    /// The inode of the namespace that the process id belongs to.
    pub pid_namespace: i64,
    /// The kernel's random id of the machine's current run.
    pub boot_id: Text,
}

impl ProcessIdentity {
    /// Reads an identity; nothing unless all of it is there.
    pub fn from_map(map: &Map) -> Option<Self> {
        let number = |key: &str| python_int(map.get(key)?).ok();
        Some(Self {
            pid: number("pid")?,
            start_ticks: number("start_ticks")?,
            pid_namespace: number("pid_namespace")?,
            boot_id: map.get("boot_id").and_then(Value::as_text)?.clone(),
        })
    }

    /// The identity as it is written, keys in order.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("pid", self.pid);
        map.insert("start_ticks", self.start_ticks);
        map.insert("pid_namespace", self.pid_namespace);
        map.insert("boot_id", self.boot_id.clone());
        map
    }

    /// Whether the ids of two processes can be compared: the same machine since it was started,
    /// and the same namespace.
    pub fn shares_ids_with(&self, other: &Self) -> bool {
        self.boot_id == other.boot_id && self.pid_namespace == other.pid_namespace
    }
}
