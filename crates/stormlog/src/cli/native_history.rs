//! The flags that ask for the history of PyTorch's CUDA allocator.

use stormlog_capture::collect::nvml::Share;

use crate::diagnose::Target;
use crate::failure::hinted;
use crate::recording::gpu_collectors;

/// What the programs that know PyTorch take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct NativeHistory {
    /// Let the command record what PyTorch's CUDA allocator does, and put it into the bundle
    #[arg(long)]
    native_history: bool,
    /// How many entries of that history are kept
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        allow_negative_numbers = true
    )]
    native_history_max_entries: i64,
}

impl NativeHistory {
    /// How many entries are recorded, if it is asked for. What makes that impossible is told
    /// before anything is begun.
    pub(crate) fn entries(self, target: &Target) -> anyhow::Result<Option<u64>> {
        let most = u64::try_from(self.native_history_max_entries).unwrap_or(0);
        if most == 0 {
            anyhow::bail!("--native-history-max-entries must be > 0");
        }
        if !self.native_history {
            return Ok(None);
        }
        if !matches!(target, Target::Command(_)) {
            return Err(hinted(
                anyhow::anyhow!("no process records a history of PyTorch's allocator"),
                "only the program itself can: give it as a command after '--', such as \
                 '-- python train.py'",
            ));
        }
        if let Err(reason) = gpu_collectors(&[], Share::Nobody) {
            return Err(hinted(
                anyhow::anyhow!("'--native-history' needs a CUDA device: {reason}"),
                "leave it out, or run this on the machine with the GPU",
            ));
        }
        Ok(Some(most))
    }
}
