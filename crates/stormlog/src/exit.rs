//! Exit codes of the program, which have the same meaning in every command.

/// How a command ended; determines the exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Fine,
    /// The command failed; wrong usage of the command line counts as a failure too.
    Failure,
    /// The command found a memory risk, or a check such as `stormlog issues check` failed.
    Risk,
    /// The exit code of another program that the command ran.
    Child(u8),
}

impl Exit {
    /// The number that the process exits with.
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
