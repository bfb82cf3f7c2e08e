//! A process of a run and its own host memory.

use super::host_look::HostLook;

/// What a process is to the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// The program itself.
    #[default]
    Program,
    /// A Python process that the program forked or spawned, such as a data loader's.
    Worker,
    /// Any other child.
    Subprocess,
}

impl Role {
    /// The role as it is written in a recording.
    #[must_use]
    pub fn parse(word: &str) -> Self {
        match word {
            "worker" => Self::Worker,
            "subprocess" => Self::Subprocess,
            _ => Self::Program,
        }
    }

    /// The word for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Worker => "worker",
            Self::Subprocess => "subprocess",
        }
    }
}

/// A process of a run with the samples of its own memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Rank of the program that it belongs to.
    pub rank: u32,
    /// The session that recorded it.
    pub session_id: String,
    /// The program that it belongs to; its own pid where it is the program.
    pub program_pid: i64,
    /// Its pid.
    pub pid: i64,
    /// Its command, shortened.
    pub name: String,
    /// What it is to the program.
    pub role: Role,
    /// When it was seen to exit.
    pub exited_ns: Option<i64>,
    /// Time of each sample.
    pub t_ns: Vec<i64>,
    /// Anonymous memory at each sample.
    pub anonymous: Vec<i64>,
    /// Shared memory at each sample.
    pub shared: Vec<i64>,
    /// Closer looks at it while it ran, in the order of time.
    pub looks: Vec<HostLook>,
}
