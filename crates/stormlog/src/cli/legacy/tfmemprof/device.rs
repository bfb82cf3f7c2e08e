//! Parses TensorFlow's device names: `/GPU:0`, `/CPU:0`.

use crate::cli::subject::Subject;

/// The GPU or process that a TensorFlow device name means. A name that is neither that of the CPU
/// nor ends in an index means the first GPU.
pub(super) fn device(name: &str) -> Subject {
    let name = name.to_ascii_lowercase();
    if name.contains("cpu") {
        return Subject::Process;
    }
    let digits = name.rsplit(':').next();
    let index = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
    Subject::GpuOrProcess(index)
}

#[cfg(test)]
mod tests {
    use super::{Subject, device};

    #[test]
    fn names_of_devices() {
        let names = ["/GPU:1", "gpu:0", "/device:GPU:3", "GPU", "/CPU:0", "cpu"];
        let gpus = [1, 0, 3, 0].map(Subject::GpuOrProcess);
        let found = names.map(device);
        assert_eq!(found[..4], gpus);
        assert_eq!(found[4..], [Subject::Process, Subject::Process]);
    }
}
