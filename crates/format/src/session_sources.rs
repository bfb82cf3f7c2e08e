//! Names of recorders, as they are stored in the field `source` of a session.

/// A session that `stormlog run` recorded inside the program.
pub const RUN: &str = "stormlog.run";
/// The session with the host memory, start and end of a program started by `stormlog run`.
pub const RUN_HOST: &str = "stormlog.run.host";
/// A session that `stormlog run` recorded from outside the program, because the program could not
/// be recorded from inside.
pub const RUN_OUTSIDE: &str = "stormlog.run.outside";
