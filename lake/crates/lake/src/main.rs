//! The program `stormlog-lake`: recordings of a fleet as tables, and questions over them.

use std::process::ExitCode;

fn main() -> ExitCode {
    stormlog_lake::run(std::env::args_os())
}
