//! Parses the device argument of `jaxmemprof`: an index, or the name of a JAX backend (`cpu`,
//! `gpu`).

use crate::cli::subject::Subject;

/// Parses the value of `--device`. On a machine without a GPU, index 0 is the CPU.
pub(super) fn device(text: &str) -> Result<Subject, String> {
    if let Ok(index) = text.trim().parse() {
        return Ok(match index {
            0 => Subject::GpuOrProcess(0),
            index => Subject::Gpu(index),
        });
    }
    match text.trim().to_ascii_lowercase().as_str() {
        "cpu" => Ok(Subject::Process),
        "gpu" | "cuda" | "rocm" => Ok(Subject::Gpu(0)),
        "tpu" | "metal" => Err(
            "this device cannot be read from outside of the program: use \
             stormlog.jax.MemoryTracker in the program"
                .into(),
        ),
        _ => Err("must be an index or one of cpu, gpu, tpu, metal".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Subject, device};

    #[test]
    fn an_index_or_a_backend() {
        assert_eq!(device("0"), Ok(Subject::GpuOrProcess(0)));
        assert_eq!(device(" 2 "), Ok(Subject::Gpu(2)));
        assert_eq!(device("CPU"), Ok(Subject::Process));
        assert_eq!(device("cuda"), Ok(Subject::Gpu(0)));
        for wrong in ["", "-1", "gpu:0", "x"] {
            assert!(device(wrong).unwrap_err().contains("cpu, gpu, tpu, metal"));
        }
        assert!(device("tpu").unwrap_err().contains("MemoryTracker"));
    }
}
