//! A process of a run (the program or one of its child processes), with its own host memory.

use super::host_inspection::HostInspection;

/// The role of a process in the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// The program itself.
    #[default]
    Program,
    /// A Python process that the program forked or spawned, such as a worker of a data loader.
    Worker,
    /// Any other child process of the program.
    Subprocess,
}

stormlog_format::names!(Role {
    Program => "program",
    Worker => "worker",
    Subprocess => "subprocess",
});

/// A process of a run, with the samples of its own memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Rank of the program that the process belongs to.
    pub rank: u32,
    /// The session that recorded the process.
    pub session_id: String,
    /// The pid of the program that the process belongs to; for the program itself, its own pid.
    pub program_pid: i64,
    /// The pid of the process.
    pub pid: i64,
    /// The command of the process, shortened.
    pub name: String,
    /// The role of the process in the program.
    pub role: Role,
    /// When the recorder noticed that the process had exited, in nanoseconds since 1970; `None` if
    /// it noticed no exit.
    pub exited_ns: Option<i64>,
    /// When the Python program in the process had ended, in nanoseconds since 1970, and the
    /// interpreter began to free its objects; `None` if that was not recorded.
    pub ended_ns: Option<i64>,
    /// Time of each sample in nanoseconds since 1970.
    pub t_ns: Vec<i64>,
    /// Anonymous memory of the process at each sample, in bytes.
    pub anonymous: Vec<i64>,
    /// Shared memory of the process at each sample, in bytes.
    pub shared: Vec<i64>,
    /// Inspections of the process's memory while it ran, in order of time.
    pub inspections: Vec<HostInspection>,
}
