//! `tfmemprof info` and `jaxmemprof info`: print facts about this machine.

use stormlog_capture::collect::cgroup::{Roots, machine_room};
use stormlog_capture::collect::nvml;

use super::{Framework, names};
use crate::Exit;
use crate::console::Console;

pub(crate) fn run(
    framework: Framework,
    verbose: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let framework = names(framework).framework;
    writeln!(console.out, "{framework} Stormlog - System Information")?;
    writeln!(
        console.out,
        "=================================================="
    )?;
    writeln!(console.out, "Platform: Linux")?;
    if let Some(version) = std::env::var_os("STORMLOG_PYTHON_VERSION") {
        let version = version.to_string_lossy();
        let number = version.split_whitespace().next().unwrap_or_default();
        writeln!(console.out, "Python Version: {number}")?;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    writeln!(console.out, "CPU Count: {cores}")?;
    let machine = machine_room(&Roots::default());
    for (name, value) in [
        ("Total System Memory", machine.total),
        ("Available Memory", machine.free),
    ] {
        if let Some(value) = value {
            writeln!(console.out, "{name}: {:.2} GB", gigabytes(value))?;
        }
    }
    writeln!(console.out, "\nGPU Information:")?;
    writeln!(console.out, "--------------------")?;
    match nvml::gpus() {
        Ok(gpus) => {
            writeln!(console.out, "GPU Hardware Detected: Yes")?;
            for gpu in gpus {
                let memory = nvml::device_memory(gpu.index);
                let total = memory.map_or_else(
                    |_| "unknown".to_owned(),
                    |memory| format!("{:.2} GB", gigabytes(memory.total)),
                );
                writeln!(console.out, "GPU {}: {} ({total})", gpu.index, gpu.name)?;
            }
        }
        Err(reason) => {
            writeln!(console.out, "GPU Hardware Detected: No")?;
            if verbose {
                writeln!(console.out, "Reason: {reason}")?;
            }
        }
    }
    Ok(Exit::Fine)
}

fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
