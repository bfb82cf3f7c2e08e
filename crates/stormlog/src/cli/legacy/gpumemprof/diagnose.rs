//! `gpumemprof diagnose`: writes the same bundle files as stormlog 0.3.9, and adds a verdict on the
//! whole recorded time.

use crate::Exit;
use crate::cli::diagnose::{Common, Device, diagnose};
use crate::cli::native_history::NativeHistory;
use crate::console::Console;
use crate::diagnose::Flavour;

/// Write a bundle that reports memory risks
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when no risk was found, 2 on a memory risk, 1 on failure.

Examples:
  gpumemprof diagnose --output diag --duration 30
  gpumemprof diagnose --output diag -- python train.py
  gpumemprof diagnose --output diag --native-history -- python train.py"
)]
pub(super) struct Arguments {
    /// Diagnose this GPU (index) [default: the first; without a GPU, this process]
    #[arg(long, conflicts_with_all = ["pid", "command"])]
    device: Option<u32>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    native_history: NativeHistory,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let device = arguments.device.map_or(Device::Any, Device::Number);
    let history = Some(arguments.native_history);
    diagnose(Flavour::Torch, &arguments.common, device, history, console)
}
