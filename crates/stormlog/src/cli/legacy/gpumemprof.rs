//! The commands of `gpumemprof`, which print the same lines as in stormlog 0.3.9.

mod analyze;
mod capture;
mod info;
mod monitor;
mod track;

use clap::{Parser, Subcommand};

use crate::Exit;
use crate::cli::diagnose;
use crate::console::Console;
use crate::diagnose::Flavour;

/// Record and analyze the memory of PyTorch programs (commands of stormlog 0.3.9).
#[derive(Debug, Parser)]
#[command(
    name = "gpumemprof",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  gpumemprof info
  gpumemprof track --duration 60 --output tracking.csv
  gpumemprof analyze tracking.csv --format txt
  gpumemprof diagnose --duration 5 --output diagnosis"
)]
pub(crate) struct Gpumemprof {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Arguments),
    Monitor(monitor::Arguments),
    Track(Box<track::Arguments>),
    Analyze(analyze::Arguments),
    /// Write a bundle that reports memory risks
    #[command(
        after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  gpumemprof diagnose --output diag --duration 30
  gpumemprof diagnose --output diag -- python train.py
  gpumemprof diagnose --output diag --native-history -- python train.py"
    )]
    Diagnose(Box<diagnose::Arguments>),
}

pub(crate) fn run(program: Gpumemprof, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match program.command {
        Command::Info(arguments) => info::run(&arguments, console),
        Command::Monitor(arguments) => monitor::run(&arguments, console),
        Command::Track(arguments) => track::run(&arguments, console),
        Command::Analyze(arguments) => analyze::run(&arguments, console),
        Command::Diagnose(arguments) => diagnose::run(Flavour::Torch, &arguments, console),
    }
}
