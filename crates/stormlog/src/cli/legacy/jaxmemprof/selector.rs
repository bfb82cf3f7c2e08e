//! Parses the device argument of `jaxmemprof`: an index, or the name of a JAX backend (`cpu`,
//! `gpu`).

use crate::cli::diagnose::Device;
use crate::cli::legacy::framework::tracked::Subject;

/// The value of the option `--device` of `jaxmemprof`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    /// The device with this index. On a machine without a GPU, index 0 is the CPU.
    Index(u32),
    /// The first GPU.
    Gpu,
    /// The CPU.
    Cpu,
}

/// Parses the value of `--device`: an index, `cpu` or `gpu`. The error says why the value is
/// invalid.
pub(super) fn selector(text: &str) -> Result<Selector, String> {
    if let Ok(index) = text.trim().parse() {
        return Ok(Selector::Index(index));
    }
    match text.trim().to_ascii_lowercase().as_str() {
        "cpu" => Ok(Selector::Cpu),
        "gpu" | "cuda" | "rocm" => Ok(Selector::Gpu),
        "tpu" | "metal" => Err(
            "this device cannot be read from outside of the program: use \
             stormlog.jax.MemoryTracker in the program"
                .into(),
        ),
        _ => Err("must be an index or one of cpu, gpu, tpu, metal".into()),
    }
}

impl Selector {
    /// The GPU or process whose memory `track` and `monitor` record for this `--device`.
    pub(super) fn subject(self) -> Subject {
        match self {
            Self::Cpu => Subject::Process,
            Self::Gpu => Subject::Gpu(0),
            Self::Index(0) => Subject::GpuOrProcess(0),
            Self::Index(index) => Subject::Gpu(index),
        }
    }

    /// The GPU that `diagnose` examines for this `--device`, or no GPU for the CPU.
    pub(super) fn device(self) -> Device {
        match self {
            Self::Cpu => Device::Cpu,
            Self::Gpu => Device::Number(0),
            Self::Index(0) => Device::Preferred(0),
            Self::Index(index) => Device::Number(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Selector, selector};

    #[test]
    fn an_index_or_a_backend() {
        assert_eq!(selector(" 2 "), Ok(Selector::Index(2)));
        assert_eq!(selector("CPU"), Ok(Selector::Cpu));
        assert_eq!(selector("cuda"), Ok(Selector::Gpu));
        for wrong in ["", "-1", "gpu:0", "x"] {
            assert!(
                selector(wrong)
                    .unwrap_err()
                    .contains("cpu, gpu, tpu, metal")
            );
        }
        assert!(selector("tpu").unwrap_err().contains("MemoryTracker"));
    }
}
