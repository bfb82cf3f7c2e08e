//! Exit codes: each means one thing in every command.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Fine,
    /// Something failed, bad usage included.
    Failure,
    /// Memory risk, or a gate that did not hold.
    Risk,
    /// What another program ended with, passed on.
    Child(u8),
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Failure => 1,
            Self::Risk => 2,
            Self::Child(code) => code,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
