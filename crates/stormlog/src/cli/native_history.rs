//! Flags that request the history of PyTorch's CUDA allocator: the allocator events, such as
//! allocations and frees, that the diagnosed program records.

use stormlog_capture::collect::nvml::Share;

use crate::diagnose::Target;
use crate::failure::hinted;
use crate::recording::gpu_collectors;

/// The flags for the allocator history, in the `diagnose` commands for PyTorch programs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct NativeHistory {
    /// Add PyTorch's history of the command's CUDA allocations to the bundle
    #[arg(long)]
    native_history: bool,
    /// Entries of that history to keep
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        allow_negative_numbers = true
    )]
    native_history_max_entries: i64,
}

impl NativeHistory {
    /// The number of allocator events to record, if a history was requested. If a history was
    /// requested but cannot be recorded, the function returns an error before the diagnosis starts.
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
                anyhow::anyhow!("'--native-history' needs a command"),
                "only the program itself can record its history: give a command after '--', \
                 such as '-- python train.py'",
            ));
        }
        if let Err(reason) = gpu_collectors(&[], Share::NotRecorded) {
            return Err(hinted(
                anyhow::anyhow!("'--native-history' needs a CUDA device: {reason}"),
                "omit '--native-history', or use a machine with a GPU",
            ));
        }
        Ok(Some(most))
    }
}
