//! `tfmemprof diagnose`: writes the same bundle files as stormlog 0.3.9, and adds a verdict on the
//! whole recorded time.

use super::device::device;
use crate::Exit;
use crate::cli::diagnose::{Common, diagnose};
use crate::cli::legacy::framework::{Framework, names};
use crate::console::Console;

/// Write a bundle that reports memory risks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  tfmemprof diagnose --output diag --duration 30
  tfmemprof diagnose --output diag -- python train.py"
)]
pub(super) struct Arguments {
    /// The device, /GPU:0 or /CPU:0
    #[arg(long, default_value = "/GPU:0")]
    device: String,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let flavour = names(Framework::TensorFlow).flavour;
    let device = device(&arguments.device);
    diagnose(flavour, &arguments.common, device, None, console)
}
