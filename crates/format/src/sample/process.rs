//! The memory of processes in the metadata of a sample.

use crate::metadata_keys::OTHER_PROCESSES;
use crate::value::{Map, Value};

/// At most this many rows of the list of processes are read.
pub(super) const MOST_PROCESSES: usize = 4096;

/// The host memory of one process of a process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The pid of the process.
    pub pid: i64,
    /// Its anonymous memory in bytes.
    pub anonymous: i64,
    /// Its shared memory in bytes.
    pub shared: i64,
}

impl ProcessMemory {
    /// The memory of a process from the first three cells of its row: pid, anonymous bytes and
    /// shared bytes. `None` if one of them is negative.
    pub(super) fn of_cells([pid, anonymous, shared]: [i64; 3]) -> Option<Self> {
        (pid >= 0 && anonymous >= 0 && shared >= 0).then_some(Self {
            pid,
            anonymous,
            shared,
        })
    }

    /// The processes in a list of rows; a row that does not begin with three whole numbers is
    /// skipped.
    pub(super) fn of_rows(rows: &[Value]) -> Vec<Self> {
        let rows = rows.iter().take(MOST_PROCESSES);
        let processes = rows.filter_map(|row| {
            let Value::List(cells) = row else { return None };
            let cell = |index: usize| cells.get(index).and_then(Value::as_int);
            Self::of_cells([cell(0)?, cell(1)?, cell(2)?])
        });
        processes.collect()
    }
}

/// The processes outside of the recorded program that use the device of a sample: the pid of each,
/// and its device memory in bytes.
pub fn other_processes(metadata: &Map) -> impl Iterator<Item = (u32, i64)> {
    let shares = metadata.object(OTHER_PROCESSES).into_iter();
    let shares = shares.flat_map(Map::iter).take(MOST_PROCESSES);
    shares.filter_map(|(pid, bytes)| {
        let bytes = bytes.as_int().filter(|bytes| *bytes >= 0)?;
        Some((pid.as_str()?.parse().ok()?, bytes))
    })
}
