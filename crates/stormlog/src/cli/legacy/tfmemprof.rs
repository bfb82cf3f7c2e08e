//! The commands of `tfmemprof`, which write the same files as in stormlog 0.3.9.

mod device;
mod track;

use clap::{Parser, Subcommand};

use crate::Exit;
use crate::cli::diagnose::{Common, diagnose};
use crate::cli::legacy::framework::{Framework, analyze, info};
use crate::console::Console;
use crate::diagnose::Flavour;

/// Record and analyze the memory of TensorFlow programs (commands of stormlog 0.3.9).
#[derive(Debug, Parser)]
#[command(
    name = "tfmemprof",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  tfmemprof info
  tfmemprof monitor --duration 10
  tfmemprof track --output tracking.json
  tfmemprof analyze --input tracking.json --detect-leaks"
)]
pub(crate) struct Tfmemprof {
    /// Print more
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show system and GPU information
    Info,
    Monitor(track::MonitorArguments),
    Track(Box<track::TrackArguments>),
    /// Analyze a file written by 'track' or 'monitor'
    #[command(after_help = "Examples:
  tfmemprof analyze --input tracking.json --detect-leaks --optimize
  tfmemprof analyze --input tracking.json --visualize --report report.txt")]
    Analyze(analyze::Arguments),
    Diagnose(Box<DiagnoseArguments>),
}

/// Write a bundle that reports memory risks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  tfmemprof diagnose --output diag --duration 30
  tfmemprof diagnose --output diag -- python train.py"
)]
struct DiagnoseArguments {
    /// The device, /GPU:0 or /CPU:0
    #[arg(long, default_value = "/GPU:0")]
    device: String,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(program: Tfmemprof, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match program.command {
        Command::Info => info::run(Framework::TensorFlow, program.verbose, console),
        Command::Monitor(arguments) => track::monitor(&arguments, console),
        Command::Track(arguments) => track::track(&arguments, console),
        Command::Analyze(arguments) => {
            let picture = analyze::Picture::default();
            analyze::run(Framework::TensorFlow, &arguments, picture, console)
        }
        Command::Diagnose(arguments) => {
            let device = device::device(&arguments.device);
            diagnose(
                Flavour::TensorFlow,
                &arguments.common,
                device,
                None,
                console,
            )
        }
    }
}
