//! Decides whether an exception means that memory ran out.

/// The reason that is recorded for PyTorch's own out-of-memory error.
const TORCH_REASON: &str = "torch.cuda.OutOfMemoryError";

const TENSORFLOW_REASON: &str = "tensorflow.ResourceExhaustedError";

/// The reason that is recorded for errors of PyTorch's host memory allocator.
const CPU_REASON: &str = "torch.DefaultCPUAllocator";

/// Texts of failed allocations; the first of these texts that a message contains is recorded as the
/// reason. Other failures have such texts too ("429 Resource exhausted" of a web service), so only
/// stormlog 0.3.9 judges by the text alone.
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

/// The packages that allocate device memory. Their exceptions have classes of many names.
const FRAMEWORKS: [&str; 11] = [
    "torch",
    "tensorflow",
    "jax",
    "jaxlib",
    "cupy",
    "cupy_backends",
    "numba",
    "pycuda",
    "rmm",
    "tensorrt",
    "paddle",
];

/// What the text of an XLA error contains when an allocation failed. Without these words
/// `RESOURCE_EXHAUSTED` is another limit, such as the shared memory of a kernel or the length of a
/// message of gRPC.
const ALLOCATION: [&str; 4] = ["out of memory", "allocate", "allocating", "reserve"];

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

/// The reason that stormlog 0.3.9 records if the exception means that memory ran out; `None` for
/// other exceptions.
#[must_use]
pub fn legacy_oom_reason(exception: &ExceptionFacts) -> Option<String> {
    by_class(exception).or_else(|| by_text(exception))
}

/// The reason to record if the exception means that the memory of a device ran out; `None` for
/// other exceptions. Unlike stormlog 0.3.9, this judges by the text only for the classes of
/// exceptions that report failed allocations, and recognizes all of XLA's errors.
#[must_use]
pub fn device_oom_reason(exception: &ExceptionFacts) -> Option<String> {
    by_class(exception).or_else(|| {
        if !may_report_an_allocation(exception) {
            return None;
        }
        let is_xla = || exhausted_memory(&exception.message) == Some(ExhaustedMemory::Device);
        by_text(exception).or_else(|| is_xla().then(|| "message_pattern:resource_exhausted".into()))
    })
}

/// The reason to record if the exception means that the memory of a device or of the host ran out:
/// like [`device_oom_reason`], and also for a `MemoryError` without a text, `NumPy`'s subclass of
/// it, and errors of PyTorch's host memory allocator.
#[must_use]
pub fn oom_reason(exception: &ExceptionFacts) -> Option<String> {
    device_oom_reason(exception).or_else(|| {
        let class = exception.class.to_lowercase();
        if class == "memoryerror" || class == "_arraymemoryerror" {
            return Some("MemoryError".into());
        }
        let is_host = exhausted_memory(&exception.message) == Some(ExhaustedMemory::Host);
        is_host.then(|| CPU_REASON.into())
    })
}

fn by_class(exception: &ExceptionFacts) -> Option<String> {
    let class = exception.class.to_lowercase();
    let from_torch =
        class == "outofmemoryerror" && exception.module.to_lowercase().contains("torch");
    if exception.is_torch_oom {
        return Some(TORCH_REASON.into());
    }
    if class.ends_with("resourceexhaustederror") {
        return Some(TENSORFLOW_REASON.into());
    }
    from_torch.then(|| TORCH_REASON.into())
}

fn by_text(exception: &ExceptionFacts) -> Option<String> {
    let message = exception.message.to_lowercase();
    let pattern = PATTERNS
        .iter()
        .find(|pattern| message.contains(**pattern))?;
    Some(format!("message_pattern:{pattern}"))
}

/// Whether exceptions of this class report failed allocations.
fn may_report_an_allocation(exception: &ExceptionFacts) -> bool {
    let class = exception.class.to_lowercase();
    let package = exception.module.split('.').next().unwrap_or_default();
    class.ends_with("runtimeerror")
        || class.ends_with("memoryerror")
        || FRAMEWORKS.contains(&package)
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
    // XLA, the compiler of JAX.
    if !text.contains("RESOURCE_EXHAUSTED") {
        return None;
    }
    let text = text.to_lowercase();
    let is_allocation = ALLOCATION.iter().any(|words| text.contains(words));
    is_allocation.then_some(ExhaustedMemory::Device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(class: &str, module: &str, message: &str) -> ExceptionFacts {
        ExceptionFacts {
            class: class.into(),
            module: module.into(),
            message: message.into(),
            is_torch_oom: false,
        }
    }

    fn reason(class: &str, message: &str) -> Option<String> {
        oom_reason(&facts(class, "", message))
    }

    #[test]
    fn errors_of_devices_are_known_by_class_and_by_text() {
        let device = |class: &str, module: &str, message: &str| {
            let facts = facts(class, module, message);
            assert_eq!(device_oom_reason(&facts), legacy_oom_reason(&facts));
            device_oom_reason(&facts)
        };
        assert_eq!(device("RuntimeError", "builtins", "the room is full"), None);
        let found = device("OutOfMemoryError", "torch", "");
        assert_eq!(found.as_deref(), Some(TORCH_REASON));
        let found = device("RuntimeError", "builtins", "HIP Out Of Memory");
        assert_eq!(found.as_deref(), Some("message_pattern:out of memory"));
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
        let mut facts = facts("XlaRuntimeError", "jaxlib", text);
        assert_eq!(legacy_oom_reason(&facts), None, "0.3.9 does not know it");
        let found = device_oom_reason(&facts);
        assert_eq!(found.as_deref(), Some("message_pattern:resource_exhausted"));
        assert_eq!(oom_reason(&facts), found);
        facts.class = "_InactiveRpcError".into();
        facts.module = "grpc".into();
        assert_eq!(oom_reason(&facts), None, "a limit of gRPC is no memory");
        let host = ExceptionFacts {
            class: "MemoryError".into(),
            ..ExceptionFacts::default()
        };
        assert_eq!(device_oom_reason(&host), None, "no device is concerned");
    }

    #[test]
    fn a_limit_of_another_resource_is_no_memory() {
        for text in [
            "RESOURCE_EXHAUSTED: Shared memory size limit exceeded: requested 4194304, \
             available: 101376",
            "status = StatusCode.RESOURCE_EXHAUSTED, details = \"Received message larger than max \
             (5000000 vs. 4194304)\"",
        ] {
            assert_eq!(exhausted_memory(text), None, "{text}");
            assert_eq!(reason("RuntimeError", text), None, "{text}");
        }
    }

    #[test]
    fn the_text_counts_only_for_classes_that_report_allocations() {
        let others = [
            (
                "ResourceExhausted",
                "google.api_core.exceptions",
                "429 Resource exhausted. Please try again later",
            ),
            (
                "SchedulingError",
                "cluster",
                "Task allocation failed: no node",
            ),
        ];
        for (class, module, text) in others {
            let facts = facts(class, module, text);
            assert_eq!(oom_reason(&facts), None, "{text}");
            assert!(legacy_oom_reason(&facts).is_some(), "{text}");
        }
        let memory = [
            ("RuntimeError", "builtins", "CUDA error: out of memory"),
            ("AcceleratorError", "torch", "CUDA error: out of memory"),
            ("MemoryError", "builtins", "std::bad_alloc"),
            (
                "OutOfMemoryError",
                "cupy.cuda.memory",
                "Out of memory allocating 8 bytes",
            ),
            (
                "InternalError",
                "tensorflow.python.framework.errors_impl",
                "failed to allocate memory",
            ),
        ];
        for (class, module, text) in memory {
            let facts = facts(class, module, text);
            assert!(oom_reason(&facts).is_some(), "{text}");
            assert_eq!(oom_reason(&facts), legacy_oom_reason(&facts), "{text}");
        }
    }
}
