//! `gpumemprof info`: prints facts about this machine.

use stormlog_capture::collect::cgroup::{MemoryGroup, Roots, machine_room};
use stormlog_capture::collect::{host, nvml};
use stormlog_report::bytes;

use crate::Exit;
use crate::console::Console;

/// Show GPU and system information
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Show only this GPU (index)
    #[arg(long)]
    device: Option<u32>,
    /// Show also ids and free memory of the GPUs, and the limit of this container
    #[arg(long)]
    detailed: bool,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let gpus = nvml::gpus();
    writeln!(console.out, "Stormlog - System Information")?;
    writeln!(
        console.out,
        "=================================================="
    )?;
    writeln!(console.out, "Platform: Linux")?;
    if let Some(version) = std::env::var_os("STORMLOG_PYTHON_VERSION") {
        writeln!(console.out, "Python Version: {}", version.to_string_lossy())?;
    }
    let available = if gpus.is_ok() { "True" } else { "False" };
    writeln!(console.out, "CUDA Available: {available}")?;
    let backend = if gpus.is_ok() { "cuda" } else { "cpu" };
    writeln!(console.out, "Detected Backend: {backend}")?;
    match &gpus {
        Ok(gpus) => {
            if let Some(driver) = nvml::driver_version() {
                writeln!(console.out, "Driver Version: {driver}")?;
            }
            writeln!(console.out, "GPU Device Count: {}", gpus.len())?;
            let wanted = |gpu: &&nvml::Gpu| arguments.device.is_none_or(|only| only == gpu.index);
            for gpu in gpus.iter().filter(wanted) {
                tell_gpu(gpu, arguments.detailed, console)?;
            }
        }
        Err(reason) => {
            writeln!(
                console.out,
                "CUDA is not available. Falling back to CPU-only profiling."
            )?;
            if arguments.detailed {
                writeln!(console.out, "Reason: {reason}")?;
            }
        }
    }
    tell_host(arguments.detailed, console)?;
    Ok(Exit::Fine)
}

fn tell_gpu(gpu: &nvml::Gpu, detailed: bool, console: &mut Console<'_>) -> anyhow::Result<()> {
    writeln!(console.out, "\nGPU {} Information:", gpu.index)?;
    writeln!(console.out, "  Name: {}", gpu.name)?;
    let human = |value: u64| bytes::human(i64::try_from(value).unwrap_or(i64::MAX));
    match nvml::device_memory(gpu.index) {
        Ok(memory) => {
            writeln!(console.out, "  Total Memory: {}", human(memory.total))?;
            writeln!(console.out, "  Used: {}", human(memory.used))?;
            if detailed {
                writeln!(console.out, "  Free: {}", human(memory.free))?;
            }
        }
        Err(reason) => writeln!(console.out, "  Memory: unknown ({reason})")?,
    }
    if detailed {
        writeln!(console.out, "  UUID: {}", gpu.uuid)?;
    }
    Ok(())
}

fn tell_host(detailed: bool, console: &mut Console<'_>) -> anyhow::Result<()> {
    let human = |value: u64| bytes::human(i64::try_from(value).unwrap_or(i64::MAX));
    if let Some(sizes) = host::sizes_of_this_process() {
        writeln!(console.out, "Process RSS: {}", human(sizes.resident_bytes))?;
        writeln!(console.out, "Process VMS: {}", human(sizes.virtual_bytes))?;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    writeln!(console.out, "CPU Count: {cores}")?;
    if detailed {
        let roots = Roots::default();
        let machine = machine_room(&roots);
        for (name, value) in [
            ("Total System Memory", machine.total),
            ("Available Memory", machine.free),
            (
                "Memory Limit of This Container",
                MemoryGroup::of_process(&roots, None).and_then(|group| group.limit()),
            ),
        ] {
            if let Some(value) = value {
                writeln!(console.out, "{name}: {}", human(value))?;
            }
        }
    }
    Ok(())
}
