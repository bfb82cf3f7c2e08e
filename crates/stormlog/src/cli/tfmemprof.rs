//! The commands of `tfmemprof`, with the files that the reference writes.

mod diagnose;
mod info;
mod track;

use clap::{Parser, Subcommand};

use crate::Exit;
use crate::console::Console;

/// Memory of TensorFlow programs: the commands of old over Stormlog.
#[derive(Debug, Parser)]
#[command(
    name = "tfmemprof",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(super) struct Tfmemprof {
    /// Say more
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Arguments),
    Monitor(track::MonitorArguments),
    Track(Box<track::TrackArguments>),
    Diagnose(Box<diagnose::Arguments>),
}

pub(super) fn run(program: &Tfmemprof, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match &program.command {
        Command::Info(_) => info::run(program.verbose, console),
        Command::Monitor(arguments) => track::monitor(arguments, console),
        Command::Track(arguments) => track::track(arguments, console),
        Command::Diagnose(arguments) => diagnose::run(arguments, console),
    }
}
