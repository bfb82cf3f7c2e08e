//! Decides whether an exception means that memory ran out.

use stormlog_format::{parse_bytes, whole};

/// The reason that an out-of-memory bundle gives for PyTorch's own out-of-memory error.
pub const TORCH_REASON: &str = "torch.cuda.OutOfMemoryError";

const TENSORFLOW_REASON: &str = "tensorflow.ResourceExhaustedError";

/// Texts that only a failed allocation produces; the first of these texts that a message contains
/// is recorded as the reason.
const PATTERNS: [&str; 8] = [
    "out of memory",
    "cuda out of memory",
    "hip out of memory",
    "resource exhausted",
    "failed to allocate",
    "allocation failed",
    "memoryerror",
    "std::bad_alloc",
];

/// The properties of an exception that decide whether memory ran out.
#[derive(Clone, Debug, Default)]
pub struct ExceptionFacts {
    /// The name of the exception's class.
    pub class: String,
    /// The module of the exception's class.
    pub module: String,
    /// The text of the exception, as `str(exception)` returns it.
    pub message: String,
    /// Whether the exception's class is PyTorch's own out-of-memory error, whatever its name.
    pub is_torch_oom: bool,
}

/// The reason to record if the exception means that memory ran out; `None` for other exceptions.
pub fn classify(exception: &ExceptionFacts) -> Option<String> {
    let class = exception.class.to_lowercase();
    let from_torch =
        class == "outofmemoryerror" && exception.module.to_lowercase().contains("torch");
    if exception.is_torch_oom {
        return Some(TORCH_REASON.into());
    }
    if class.ends_with("resourceexhaustederror") {
        return Some(TENSORFLOW_REASON.into());
    }
    if from_torch {
        return Some(TORCH_REASON.into());
    }
    let message = exception.message.to_lowercase();
    let pattern = PATTERNS
        .iter()
        .find(|pattern| message.contains(**pattern))?;
    Some(format!("message_pattern:{pattern}"))
}

/// The memory that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExhaustedMemory {
    /// The memory of the host.
    Host,
    /// The memory of a device.
    Device,
}

/// Which memory ran out, by the text of a `RuntimeError`; `None` if the text names no failed
/// allocation. The texts are those of failures that no callback of a framework reports, so this
/// must be cheap: it is called for every `RuntimeError` that a program raises.
#[must_use]
pub fn exhausted_memory(text: &str) -> Option<ExhaustedMemory> {
    // PyTorch on the CPU.
    if text.contains("DefaultCPUAllocator") {
        return Some(ExhaustedMemory::Host);
    }
    // XLA, the compiler of JAX. On a TPU, no other part of the text mentions memory.
    text.contains("RESOURCE_EXHAUSTED")
        .then_some(ExhaustedMemory::Device)
}

/// Classifies an exception like [`classify`], and also recognises XLA's errors on devices, which
/// stormlog 0.3.9 knows only if the text contains one of its patterns.
pub fn classify_device(exception: &ExceptionFacts) -> Option<String> {
    classify(exception).or_else(|| {
        // The text alone is not enough: errors of gRPC contain it for other limits.
        let is_runtime_error = exception.class.to_lowercase().ends_with("runtimeerror");
        let memory = exhausted_memory(&exception.message);
        let is_device = is_runtime_error && memory == Some(ExhaustedMemory::Device);
        is_device.then(|| "message_pattern:resource_exhausted".into())
    })
}

/// Classifies an exception like [`classify_device`], and also recognises failures on the host that
/// stormlog 0.3.9 does not know: a `MemoryError` without a text, NumPy's subclass of it, and errors
/// of PyTorch's host memory allocator.
pub fn classify_any(exception: &ExceptionFacts) -> Option<String> {
    classify_device(exception).or_else(|| {
        let class = exception.class.to_lowercase();
        if class == "memoryerror" || class == "_arraymemoryerror" {
            return Some("MemoryError".into());
        }
        let is_host = exhausted_memory(&exception.message) == Some(ExhaustedMemory::Host);
        is_host.then(|| CPU_REASON.into())
    })
}

/// The reason that an out-of-memory bundle gives for errors of PyTorch's host memory allocator.
const CPU_REASON: &str = "torch.DefaultCPUAllocator";

/// The words that PyTorch, NumPy and XLA write before the size of an allocation that failed.
const BEFORE_SIZE: [&str; 3] = ["allocate ", "allocating ", "reserve "];

/// The number of bytes that a failed allocation requested, if the message contains it.
#[must_use]
pub fn requested_bytes(message: &str) -> Option<i64> {
    BEFORE_SIZE.iter().find_map(|before| {
        let mut parts = message.split(before).skip(1);
        parts.find_map(size_at_start)
    })
}

fn size_at_start(text: &str) -> Option<i64> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let after_number = text.trim_start_matches(is_digit).trim_start();
    // The whole word is compared: "3 Tensors" are not 3 TiB. A number without a unit need not be a
    // size.
    let after_unit = after_number.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    if after_unit.len() == after_number.len() {
        return None;
    }
    let bytes = parse_bytes(&text[..text.len() - after_unit.len()])?;
    // Sizes of 2^63 bytes or more are rejected, because a message can claim any size.
    let fits = (0.0..9_223_372_036_854_775_807.0).contains(&bytes);
    fits.then_some(whole(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_failed_request_is_read_from_its_error() {
        let known = [
            (
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 \
                 bytes. Error code 12",
                17_179_869_184,
            ),
            ("Unable to allocate 8.00 GiB for an array", 8 << 30),
            ("CUDA out of memory. Tried to allocate 20.00 MiB.", 20 << 20),
            (
                "RESOURCE_EXHAUSTED: Out of memory allocating 512 bytes.",
                512,
            ),
            ("Out of memory while trying to allocate 16.0KiB", 16 << 10),
            (
                "RESOURCE_EXHAUSTED: Attempting to reserve 1.50G at the bottom of memory.",
                3 << 29,
            ),
        ];
        for (message, bytes) in known {
            assert_eq!(requested_bytes(message), Some(bytes), "{message}");
        }
        for unknown in [
            "",
            "allocate",
            "cannot allocate memory",
            "allocate 1e3 GiB",
            "allocate . B",
            "allocate 3 Tensors",
        ] {
            assert_eq!(requested_bytes(unknown), None, "{unknown}");
        }
        let huge = format!("allocate {} bytes", "9".repeat(400));
        assert_eq!(requested_bytes(&huge), None);
    }

    fn reason(class: &str, message: &str) -> Option<String> {
        classify_any(&ExceptionFacts {
            class: class.into(),
            message: message.into(),
            ..ExceptionFacts::default()
        })
    }

    #[test]
    fn failed_allocations_of_host_memory_are_known() {
        assert_eq!(reason("MemoryError", "").as_deref(), Some("MemoryError"));
        let numpy = "Unable to allocate 8.00 GiB for an array with shape (1073741824,)";
        let found = reason("_ArrayMemoryError", numpy);
        assert_eq!(found.as_deref(), Some("MemoryError"));
        let torch = "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate \
                     memory: you tried to allocate 17179869184 bytes. Error code 12";
        assert_eq!(reason("RuntimeError", torch).as_deref(), Some(CPU_REASON));
        assert_eq!(reason("RuntimeError", "shape mismatch"), None);
    }

    #[test]
    fn errors_of_xla_on_a_device_are_known() {
        let text = "RESOURCE_EXHAUSTED: Attempting to allocate 3.91G. That was not possible.";
        let mut facts = ExceptionFacts {
            class: "XlaRuntimeError".into(),
            message: text.into(),
            ..ExceptionFacts::default()
        };
        assert_eq!(classify(&facts), None, "stormlog 0.3.9 does not know it");
        let found = classify_device(&facts);
        assert_eq!(found.as_deref(), Some("message_pattern:resource_exhausted"));
        assert_eq!(classify_any(&facts), found);
        facts.class = "_InactiveRpcError".into();
        assert_eq!(classify_any(&facts), None, "a limit of gRPC is no memory");
        let host = ExceptionFacts {
            class: "MemoryError".into(),
            ..ExceptionFacts::default()
        };
        assert_eq!(classify_device(&host), None, "no device is concerned");
    }
}
