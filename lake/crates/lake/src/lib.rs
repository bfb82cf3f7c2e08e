//! The commands of the program `stormlog-lake`, one file each.

mod cluster;
mod diagnose;
mod doctor;
mod error;
mod fleet;
mod ingest;
mod lake_args;
mod optimize;
mod output;
mod query;
mod rows;
mod sql;
mod vacuum;
mod worker;

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
    after_help = "Examples:\n  stormlog lake ingest /runs --to /lake\n  stormlog lake waste --at /lake\n  stormlog lake doctor --at s3://bucket/fleet"
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
    /// Delete files that no table version within the retention time needs
    Vacuum(vacuum::VacuumArgs),
    /// Check the tables of a lake against each other and against their sources
    Doctor(doctor::DoctorArgs),
    /// Run one SQL statement that only reads
    Sql(sql::SqlArgs),
    /// Ask the questions of 'stormlog query' over a lake
    Query(query::QueryArgs),
    /// Find memory problems of runs, with the detectors of 'stormlog analyze'
    Diagnose(diagnose::DiagnoseArgs),
    /// Start workers on this machine and print their addresses
    Cluster(cluster::ClusterArgs),
    /// Run one worker of a cluster
    Worker(worker::WorkerArgs),
    /// List runs whose memory grows without end
    Leaks(fleet::LeaksArgs),
    /// List memory that is reserved and not used, by job and user
    Waste(fleet::WasteArgs),
    /// Count out-of-memory errors by host, job or user
    Ooms(fleet::OomsArgs),
    /// List how close jobs came to the limit of their devices
    Headroom(fleet::HeadroomArgs),
    /// List peak memory by commit and framework version
    Regressions(fleet::RegressionsArgs),
}

/// Runs the program with the given arguments and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return error::usage(&error),
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Command::Worker(args) = &cli.command {
        runtime.worker_threads(args.threads());
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return error::failed(&error.into()),
    };
    // Tables are untrusted, and the libraries that read them may panic on bad content, so a panic
    // is reported like any other error.
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(dispatch(cli.command))
    }));
    match outcome {
        Ok(outcome) => outcome.unwrap_or_else(|error| error::failed(&error)),
        Err(panic) => error::failed(&error::of_panic(&*panic)),
    }
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ingest(args) => ingest::run(args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Optimize(args) => optimize::run(args).await,
        Command::Vacuum(args) => vacuum::run(args).await,
        Command::Sql(args) => sql::run(args).await,
        Command::Query(args) => query::run(args).await,
        Command::Diagnose(args) => diagnose::run(args).await,
        Command::Cluster(args) => cluster::run(args).await,
        Command::Worker(args) => worker::run(args).await,
        Command::Leaks(args) => fleet::leaks(args).await,
        Command::Waste(args) => fleet::waste(args).await,
        Command::Ooms(args) => fleet::ooms(args).await,
        Command::Headroom(args) => fleet::headroom(args).await,
        Command::Regressions(args) => fleet::regressions(args).await,
    }
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
