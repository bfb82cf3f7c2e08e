//! Parses TensorFlow's device names: `/GPU:0`, `/CPU:0`.

use crate::cli::diagnose::Device;
use crate::cli::legacy::framework::tracked::Subject;

/// The GPU or process that `track` and `monitor` record for a TensorFlow device name.
pub(super) fn subject(name: &str) -> Subject {
    match number(name) {
        Some(number) => Subject::GpuOrProcess(number),
        None => Subject::Process,
    }
}

/// The GPU that `diagnose` examines for a TensorFlow device name, or no GPU for the CPU.
pub(super) fn device(name: &str) -> Device {
    match number(name) {
        Some(number) => Device::Preferred(number),
        None => Device::Cpu,
    }
}

/// The index of the GPU in a TensorFlow device name; `None` for the CPU.
fn number(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    if name.contains("cpu") {
        return None;
    }
    let digits = name.rsplit(':').next();
    Some(digits.and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn names_of_devices() {
        let names = ["/GPU:1", "gpu:0", "/device:GPU:3", "GPU", "/CPU:0", "cpu"];
        let found = names.map(number);
        assert_eq!(found, [Some(1), Some(0), Some(3), Some(0), None, None]);
    }
}
