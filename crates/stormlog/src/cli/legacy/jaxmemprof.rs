//! The commands of `jaxmemprof`, which write the same files as in stormlog 0.3.9.

mod device;
mod track;

use clap::{Parser, Subcommand};

use crate::Exit;
use crate::cli::diagnose::{Common, diagnose};
use crate::cli::legacy::framework::{Framework, analyze, info};
use crate::cli::subject::Subject;
use crate::console::Console;
use crate::diagnose::Flavour;
use crate::failure::hinted;

/// Record and analyze the memory of JAX programs (commands of stormlog 0.3.9).
#[derive(Debug, Parser)]
#[command(
    name = "jaxmemprof",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  jaxmemprof info
  jaxmemprof monitor --duration 10 --device gpu
  jaxmemprof track --output tracking.json
  jaxmemprof analyze --input tracking.json --detect-leaks"
)]
pub(crate) struct Jaxmemprof {
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
    Analyze(AnalyzeArguments),
    Diagnose(Box<DiagnoseArguments>),
}

/// Analyze a file written by 'track' or 'monitor'
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  jaxmemprof analyze --input tracking.json --detect-leaks --optimize
  jaxmemprof analyze --input tracking.json --plot timeline.png --report report.txt")]
struct AnalyzeArguments {
    #[command(flatten)]
    shared: analyze::Arguments,
    /// Directory of the pictures [default: .]
    #[arg(long, value_name = "DIR")]
    output: Option<std::path::PathBuf>,
    /// Draw the timeline
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = analyze::PICTURE)]
    plot: Option<String>,
}

/// Write a bundle that reports memory risks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  jaxmemprof diagnose --output diag --duration 30
  jaxmemprof diagnose --output diag -- python train.py"
)]
struct DiagnoseArguments {
    /// The device: its index, cpu or gpu
    #[arg(long, default_value = "0", value_parser = device::device)]
    device: Subject,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(program: Jaxmemprof, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    match program.command {
        Command::Info => info::run(Framework::Jax, program.verbose, console),
        Command::Monitor(arguments) => track::monitor(&arguments, console),
        Command::Track(arguments) => track::track(&arguments, console),
        Command::Analyze(arguments) => {
            let picture = analyze::Picture {
                folder: arguments.output.as_deref(),
                name: arguments.plot.as_deref(),
            };
            analyze::run(Framework::Jax, &arguments.shared, picture, console)
        }
        Command::Diagnose(arguments) => {
            needs_jax()?;
            let device = arguments.device;
            diagnose(Flavour::Jax, &arguments.common, device, None, console)
        }
    }
}

/// Fails when JAX is not installed. The Python package sets an environment variable that shows
/// whether JAX is installed.
fn needs_jax() -> anyhow::Result<()> {
    if std::env::var("STORMLOG_JAX_AVAILABLE").as_deref() == Ok("False") {
        return Err(hinted(
            anyhow::anyhow!("JAX is not installed"),
            "'pip install jax', for NVIDIA GPUs \"pip install 'jax[cuda13]'\"; \
             'stormlog track -- python train.py' works without JAX",
        ));
    }
    Ok(())
}
