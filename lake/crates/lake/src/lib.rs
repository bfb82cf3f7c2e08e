//! The commands of `stormlog-lake`, one file each.

mod doctor;
mod error;
mod ingest;
mod optimize;
mod output;
mod vacuum;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Stores recordings of a fleet as Delta tables and answers questions over them.
#[derive(Parser)]
#[command(
    name = "stormlog-lake",
    bin_name = "stormlog lake",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  stormlog lake ingest /runs --to /lake\n  stormlog lake doctor --at s3://bucket/fleet"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Store recordings in a lake; what is stored already is not stored again
    Ingest(ingest::IngestArgs),
    /// Join small files of a lake into larger ones
    Optimize(optimize::OptimizeArgs),
    /// Delete files that no version within the retention needs
    Vacuum(vacuum::VacuumArgs),
    /// Check the tables of a lake against each other and against their sources
    Doctor(doctor::DoctorArgs),
}

/// Runs the program with the given arguments.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return error::usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return error::failed(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Ingest(args) => ingest::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Optimize(args) => optimize::run(args).await,
            Command::Vacuum(args) => vacuum::run(args).await,
        }
    });
    outcome.unwrap_or_else(|error| error::failed(&error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
