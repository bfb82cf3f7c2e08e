//! `tfmemprof diagnose`: the bundle of old, with a verdict over the whole window.

use crate::Exit;
use crate::cli::diagnose::{Common, Device, diagnose};
use crate::cli::integrations::Integrations;
use crate::console::Console;
use crate::diagnose::Flavour;

/// Leave a bundle that says whether memory is at risk
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when nothing is wrong, 2 at a memory risk, 1 on failure.

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
    #[command(flatten)]
    integrations: Integrations,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    arguments.integrations.refuse()?;
    let name = arguments.device.to_ascii_lowercase();
    let number = name
        .rsplit(':')
        .next()
        .and_then(|digits| digits.parse().ok());
    let device = if name.contains("cpu") {
        Device::Cpu
    } else {
        Device::Preferred(number.unwrap_or(0))
    };
    diagnose(Flavour::TensorFlow, &arguments.common, device, console)
}
