//! Whether an exception means that memory ran out.

/// The reason given for PyTorch's own error.
pub const TORCH_REASON: &str = "torch.cuda.OutOfMemoryError";

const TENSORFLOW_REASON: &str = "tensorflow.ResourceExhaustedError";

/// Texts that only an allocation that failed would say, the first that is found counts.
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

/// What is looked at of an exception.
#[derive(Clone, Debug, Default)]
pub struct ExceptionFacts {
    /// The name of its class.
    pub class: String,
    /// The module of its class.
    pub module: String,
    /// Its text.
    pub message: String,
    /// Whether it is PyTorch's own type, whatever it is called.
    pub is_torch_oom: bool,
}

/// The reason when memory ran out, nothing for other exceptions.
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

/// The reason given for PyTorch's allocator of host memory.
const CPU_REASON: &str = "torch.DefaultCPUAllocator";

/// What PyTorch says when it gets no host memory.
const CPU_ALLOCATOR: [&str; 2] = ["defaultcpuallocator", "allocate memory"];

/// The same also for failures that stormlog 0.3.9 does not know: a `MemoryError` without a text,
/// NumPy's class below it, and PyTorch's allocator of host memory.
pub fn classify_any(exception: &ExceptionFacts) -> Option<String> {
    let known = classify(exception);
    if known.is_some() {
        return known;
    }
    let class = exception.class.to_lowercase();
    if class == "memoryerror" || class == "_arraymemoryerror" {
        return Some("MemoryError".into());
    }
    let message = exception.message.to_lowercase();
    let is_cpu = CPU_ALLOCATOR.iter().all(|part| message.contains(part));
    is_cpu.then(|| CPU_REASON.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
