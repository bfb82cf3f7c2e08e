//! The program `stormlog-lake` stores recordings of a fleet as tables and answers queries over
//! them.

use std::process::ExitCode;

fn main() -> ExitCode {
    stormlog_lake::run(std::env::args_os())
}
