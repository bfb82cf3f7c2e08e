//! Advice on memory for the programs of a framework. The advice for TensorFlow has the wording of
//! stormlog 0.3.9.

use super::{Framework, FunctionProfile};

/// The advice for a framework, by the observation that triggers it.
struct Advice {
    large: &'static [&'static str],
    middling: &'static [&'static str],
    growing: &'static [&'static str],
    fragmented: &'static [&'static str],
    general: &'static [&'static str],
    /// How to compile a function that is called frequently; it completes a sentence that ends in
    /// "consider".
    compiled: &'static str,
}

const TENSORFLOW: Advice = Advice {
    large: &[
        "Consider using tf.keras.utils.Sequence for data loading to reduce memory usage",
        "Enable mixed precision training with tf.keras.mixed_precision.Policy('mixed_float16')",
        "Use gradient checkpointing with tf.recompute_grad for large models",
    ],
    middling: &[
        "Consider reducing batch size or using gradient accumulation",
        "Use tf.data.Dataset.prefetch() and tf.data.Dataset.cache() for efficient data loading",
        "Enable memory growth: tf.config.experimental.set_memory_growth(gpu, True)",
    ],
    growing: &[
        "High memory growth detected - check for memory leaks in custom ops",
        "Use tf.function decorator to optimize computation graphs",
        "Consider using tf.data.Dataset instead of feeding numpy arrays",
    ],
    fragmented: &[
        "High memory fragmentation detected - consider using smaller batch sizes",
        "Use tf.config.experimental.set_virtual_device_configuration() to limit GPU memory",
    ],
    general: &[
        "Use tf.data.Dataset.map() with num_parallel_calls=tf.data.AUTOTUNE for preprocessing",
        "Enable XLA compilation with tf.config.optimizer.set_jit(True)",
        "Consider using tf.distribute.Strategy for multi-GPU training",
        "Use tf.keras.callbacks.ReduceLROnPlateau to prevent overfitting and reduce memory over time",
    ],
    compiled: "@tf.function decoration",
};

const JAX: Advice = Advice {
    large: &[
        "Recompute activations instead of keeping them: jax.checkpoint around the large blocks",
        "Keep parameters and activations in bfloat16 where the model allows it",
        "Shard large arrays over several devices with jax.sharding",
    ],
    middling: &[
        "Reduce the batch size or accumulate gradients over several steps",
        "Let jit reuse the memory of its arguments: donate_argnums for parameters and state",
    ],
    growing: &[
        "Memory keeps growing - look for arrays that lists, closures or caches hold on to",
        "Look for functions that are compiled again and again: set jax_log_compiles",
    ],
    fragmented: &[
        "The pool holds memory that nothing uses - try XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
        "Use the same array shapes in every step, so that freed blocks fit the next step",
    ],
    general: &[
        "Use jax.lax.scan instead of long Python loops inside jit",
        "See what holds memory with jax.profiler.save_device_memory_profile()",
    ],
    compiled: "wrapping it in @jax.jit",
};

impl Framework {
    fn advice(self) -> &'static Advice {
        match self {
            Self::TensorFlow => &TENSORFLOW,
            Self::Jax => &JAX,
        }
    }
}

/// The largest number of pieces of advice for one profile.
const MOST: usize = 10;

/// A score (0 to 10) below this value adds an action to the priority actions of the report.
const POOR: f64 = 6.0;

/// Advice on a profile, at most ten texts: first on what was observed, then general advice.
pub fn suggestions(
    framework: Framework,
    peak_mb: f64,
    growth: f64,
    fragmentation: f64,
    functions: &[FunctionProfile],
) -> Vec<String> {
    let known = framework.advice();
    let mut advice: Vec<String> = Vec::new();
    let mut add = |holds: bool, texts: &[&str]| {
        if holds {
            advice.extend(texts.iter().map(ToString::to_string));
        }
    };
    add(peak_mb > 8000.0, known.large);
    add(peak_mb > 4000.0, known.middling);
    add(growth > 100.0, known.growing);
    add(fragmentation > 0.3, known.fragmented);
    for function in functions {
        let name = function.name.to_str_lossy();
        if function.peak_memory_mb > 2000.0 {
            advice.push(format!(
                "Function '{name}' uses high memory - consider optimization"
            ));
        }
        if function.calls > 100 {
            let compiled = known.compiled;
            advice.push(format!(
                "Function '{name}' called frequently - consider {compiled}"
            ));
        }
    }
    advice.extend(known.general.iter().map(ToString::to_string));
    advice.truncate(MOST);
    advice
}

/// The actions to take first: one for each of the three scores (0 to 10) that is below 6.
pub fn priority_actions(memory: f64, fragmentation: f64, performance: f64) -> Vec<String> {
    let actions = [
        (memory, "Address memory efficiency issues"),
        (fragmentation, "Reduce memory fragmentation"),
        (performance, "Optimize function performance"),
    ];
    let poor = actions.iter().filter(|(score, _)| *score < POOR);
    poor.map(|(_, action)| (*action).to_owned()).collect()
}
