//! Whose memory `diagnose` and the commands of stormlog 0.3.9 record from outside of a program: that
//! of a GPU, or that of their own process.

use stormlog_capture::collect::Collector;
use stormlog_capture::collect::nvml::Share;

use crate::recording::{gpu_collectors, own_collector};

/// The GPU or process that the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The GPU with this index; if the machine has no such GPU, the command fails.
    Gpu(u32),
    /// The GPU with this index; on a machine without GPUs, the process of the command itself.
    GpuOrProcess(u32),
    /// The process of the command itself.
    Process,
}

/// Whose memory the collectors of a [`Subject`] read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// That of the GPU with this index, as its driver reports it.
    Gpu(u32),
    /// That of this process.
    Process,
}

impl Subject {
    /// The GPU with the given index; without an index, the first GPU, or on a machine without GPUs
    /// the process of the command itself.
    pub(crate) fn of_gpu(index: Option<u32>) -> Self {
        index.map_or(Self::GpuOrProcess(0), Self::Gpu)
    }

    /// The collectors for the subject, and what they read; if the GPU does not exist, the reason.
    pub(crate) fn collectors(self) -> Result<(Vec<Box<dyn Collector>>, Source), String> {
        let of_gpu = |index| {
            let collectors = gpu_collectors(&[index], Share::NotRecorded)?;
            Ok((collectors, Source::Gpu(index)))
        };
        let of_process = || (vec![own_collector()], Source::Process);
        match self {
            Self::Gpu(index) => of_gpu(index),
            Self::GpuOrProcess(index) => Ok(of_gpu(index).unwrap_or_else(|_: String| of_process())),
            Self::Process => Ok(of_process()),
        }
    }
}

impl Source {
    /// The value for `backend` in out-of-memory bundles: `of_gpu` for a GPU, or `cpu`.
    pub(crate) fn backend(self, of_gpu: &'static str) -> &'static str {
        match self {
            Self::Gpu(_) => of_gpu,
            Self::Process => "cpu",
        }
    }
}
