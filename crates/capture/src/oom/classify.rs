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
