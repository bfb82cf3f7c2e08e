//! Reads the memory of any NVIDIA GPU, and what each process uses on it, through NVML, the
//! management library of the driver. The NVML library is loaded on first use.

use std::sync::OnceLock;

use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use stormlog_format::{Counters, Map, SampleNumber, signed};

use super::process_tree::descendants;
use super::{CollectError, Collector, CounterSource, Reading};
use crate::clock::now_ns;

static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();

/// The NVML library, or the reason why it cannot be used. The NVML library stays loaded, because
/// shutting it down would break other code of the process that uses it.
fn library() -> Result<&'static Nvml, String> {
    let loaded = LIBRARY.get_or_init(|| Nvml::init().map_err(|error| reason(&error)));
    loaded.as_ref().map_err(Clone::clone)
}

/// Why NVML cannot be used. When the NVML library cannot be loaded, the driver is missing; the
/// error names the driver, because the loader's own text only lists the file names that it tried.
fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => "no NVIDIA driver found".to_owned(),
        error => error.to_string(),
    }
}

/// The memory of a GPU as the driver reports it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes of the GPU that all processes together use.
    pub used: u64,
    /// Free bytes.
    pub free: u64,
    /// The total memory of the device, in bytes.
    pub total: u64,
}

/// One GPU, identified by the driver's index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The index of the GPU in the driver's list of all GPUs, from 0.
    pub index: u32,
    /// The product's name.
    pub name: String,
    /// The unique id that the driver gives to the GPU; empty when it cannot be read.
    pub uuid: String,
}

/// Lists every GPU of the machine, or returns the reason why none is visible.
pub fn gpus() -> Result<Vec<Gpu>, String> {
    let count = library()?.device_count();
    let count = count.map_err(|error| error.to_string())?;
    (0..count).map(gpu).collect()
}

fn device(index: u32) -> Result<Device<'static>, String> {
    let device = library()?.device_by_index(index);
    device.map_err(|error| error.to_string())
}

fn gpu(index: u32) -> Result<Gpu, String> {
    let device = device(index)?;
    Ok(Gpu {
        index,
        name: device.name().unwrap_or_else(|_| "unknown GPU".into()),
        uuid: device.uuid().unwrap_or_default(),
    })
}

/// The version of the NVIDIA driver.
pub fn driver_version() -> Option<String> {
    library().ok()?.sys_driver_version().ok()
}

/// Finds the GPU with the given UUID, with or without the `GPU-` prefix.
pub fn gpu_with_uuid(uuid: &str) -> Option<Gpu> {
    let wanted = uuid.strip_prefix("GPU-").unwrap_or(uuid);
    gpus()
        .ok()?
        .into_iter()
        .find(|gpu| gpu.uuid.strip_prefix("GPU-") == Some(wanted))
}

/// Reads the memory of a GPU.
pub fn device_memory(index: u32) -> Result<DeviceMemory, String> {
    let info = device(index)?.memory_info();
    let info = info.map_err(|error| error.to_string())?;
    Ok(DeviceMemory {
        used: info.used,
        free: info.free,
        total: info.total,
    })
}

/// Memory that one process uses on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessShare {
    /// The pid of the process as the driver reports it; in a container, the driver often reports
    /// the host's pid.
    pub pid: u32,
    /// Bytes that the process uses on the GPU.
    pub bytes: u64,
}

/// The memory of each process on a GPU; a process whose memory the driver does not know is left
/// out.
pub fn shares(index: u32) -> Result<Vec<ProcessShare>, String> {
    let processes = device(index)?.running_compute_processes();
    let processes = processes.map_err(|error| error.to_string())?;
    let known = processes
        .into_iter()
        .filter_map(|process| match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(ProcessShare {
                pid: process.pid,
                bytes,
            }),
            UsedGpuMemory::Unavailable => None,
        });
    Ok(known.collect())
}

/// The memory that the given processes use on a GPU together. `None` when the driver reports a size
/// for none of them, because an unknown size is not the same as zero bytes.
pub fn process_memory(index: u32, wanted: impl Fn(u32) -> bool) -> Result<Option<u64>, String> {
    let shares = shares(index)?.into_iter();
    let wanted = shares.filter(|share| wanted(share.pid));
    Ok(wanted
        .map(|share| share.bytes)
        .reduce(|sum, bytes| sum + bytes))
}

/// The processes whose memory on the GPU is recorded besides the memory that is in use on the whole
/// GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// No memory of single processes is recorded for the GPU.
    NotRecorded,
    /// The memory of one process and all its descendants on the GPU is recorded.
    Tree(u32),
}

/// Reads one GPU through the driver, from outside the processes that use the GPU.
#[derive(Debug)]
pub struct NvmlCollector {
    source: CounterSource,
    gpu: Gpu,
    share: Share,
}

impl NvmlCollector {
    /// Makes a collector for the GPU.
    pub fn new(gpu: Gpu, share: Share) -> Self {
        Self {
            source: CounterSource::device("cuda", "stormlog.nvml_tracker", "nvml"),
            gpu,
            share,
        }
    }
}

impl Collector for NvmlCollector {
    fn source(&self) -> &CounterSource {
        &self.source
    }

    fn device_uuid(&self) -> Option<String> {
        Some(self.gpu.uuid.clone()).filter(|uuid| !uuid.is_empty())
    }

    fn read(&mut self) -> Result<Reading, CollectError> {
        let timestamp_ns = now_ns();
        let memory = device_memory(self.gpu.index).map_err(CollectError::Failed)?;
        let mut metadata = Map::new();
        let mut errors = Vec::new();
        if let Share::Tree(root) = self.share {
            let pids = descendants(std::path::Path::new("/proc"), root);
            match process_memory(self.gpu.index, |pid| pids.contains(&pid)) {
                Ok(Some(bytes)) => {
                    metadata.insert(SampleNumber::Own.key(), signed(bytes));
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        Ok(Reading {
            timestamp_ns,
            device_id: i64::from(self.gpu.index),
            counters: Counters {
                device_used_bytes: Some(signed(memory.used)),
                device_free_bytes: Some(signed(memory.free)),
                device_total_bytes: Some(signed(memory.total)),
                ..Counters::default()
            },
            errors,
            metadata,
            ..Reading::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_driver_gets_a_plain_reason() {
        if let Err(reason) = gpus() {
            assert!(!reason.is_empty());
            assert!(!reason.contains("libloading"), "{reason}");
            assert!(device_memory(0).is_err());
            assert_eq!(gpu_with_uuid("GPU-0"), None);
        }
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn reads_every_gpu() {
        for gpu in gpus().unwrap() {
            let reading = NvmlCollector::new(gpu, Share::NotRecorded).read().unwrap();
            assert!(reading.counters.device_total_bytes > reading.counters.device_used_bytes);
        }
    }
}
