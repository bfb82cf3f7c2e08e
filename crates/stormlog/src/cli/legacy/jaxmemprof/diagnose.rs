//! `jaxmemprof diagnose`: writes the same bundle files as stormlog 0.3.9, and adds a verdict on the
//! whole recorded time.

use super::device::device;
use super::needs_jax;
use crate::Exit;
use crate::cli::diagnose::{Common, diagnose};
use crate::cli::legacy::framework::{Framework, names};
use crate::cli::subject::Subject;
use crate::console::Console;

/// Write a bundle that reports memory risks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  jaxmemprof diagnose --output diag --duration 30
  jaxmemprof diagnose --output diag -- python train.py"
)]
pub(super) struct Arguments {
    /// The device: its index, cpu or gpu
    #[arg(long, default_value = "0", value_parser = device)]
    device: Subject,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    needs_jax()?;
    let flavour = names(Framework::Jax).flavour;
    diagnose(flavour, &arguments.common, arguments.device, None, console)
}
