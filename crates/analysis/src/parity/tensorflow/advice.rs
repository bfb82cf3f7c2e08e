//! What to do about memory in TensorFlow programs, in the reference's words.

use super::FunctionProfile;

const LARGE: [&str; 3] = [
    "Consider using tf.keras.utils.Sequence for data loading to reduce memory usage",
    "Enable mixed precision training with tf.keras.mixed_precision.Policy('mixed_float16')",
    "Use gradient checkpointing with tf.recompute_grad for large models",
];
const MIDDLING: [&str; 3] = [
    "Consider reducing batch size or using gradient accumulation",
    "Use tf.data.Dataset.prefetch() and tf.data.Dataset.cache() for efficient data loading",
    "Enable memory growth: tf.config.experimental.set_memory_growth(gpu, True)",
];
const GROWING: [&str; 3] = [
    "High memory growth detected - check for memory leaks in custom ops",
    "Use tf.function decorator to optimize computation graphs",
    "Consider using tf.data.Dataset instead of feeding numpy arrays",
];
const FRAGMENTED: [&str; 2] = [
    "High memory fragmentation detected - consider using smaller batch sizes",
    "Use tf.config.experimental.set_virtual_device_configuration() to limit GPU memory",
];
const GENERAL: [&str; 4] = [
    "Use tf.data.Dataset.map() with num_parallel_calls=tf.data.AUTOTUNE for preprocessing",
    "Enable XLA compilation with tf.config.optimizer.set_jit(True)",
    "Consider using tf.distribute.Strategy for multi-GPU training",
    "Use tf.keras.callbacks.ReduceLROnPlateau to prevent overfitting and reduce memory over time",
];

/// The most that is advised at once.
const MOST: usize = 10;

/// Below this a score calls for action.
const POOR: f64 = 6.0;

/// The first things to do about a profile.
pub fn suggestions(
    peak_mb: f64,
    growth: f64,
    fragmentation: f64,
    functions: &[FunctionProfile],
) -> Vec<String> {
    let mut advice: Vec<String> = Vec::new();
    let mut add = |holds: bool, texts: &[&str]| {
        if holds {
            advice.extend(texts.iter().map(ToString::to_string));
        }
    };
    add(peak_mb > 8000.0, &LARGE);
    add(peak_mb > 4000.0, &MIDDLING);
    add(growth > 100.0, &GROWING);
    add(fragmentation > 0.3, &FRAGMENTED);
    for function in functions {
        let name = function.name.to_str_lossy();
        if function.peak_memory_mb > 2000.0 {
            advice.push(format!(
                "Function '{name}' uses high memory - consider optimization"
            ));
        }
        if function.calls > 100 {
            advice.push(format!(
                "Function '{name}' called frequently - consider @tf.function decoration"
            ));
        }
    }
    advice.extend(GENERAL.iter().map(ToString::to_string));
    advice.truncate(MOST);
    advice
}

/// What the scores say to do first.
pub fn priority_actions(memory: f64, fragmentation: f64, performance: f64) -> Vec<String> {
    let actions = [
        (memory, "Address memory efficiency issues"),
        (fragmentation, "Reduce memory fragmentation"),
        (performance, "Optimize function performance"),
    ];
    let poor = actions.iter().filter(|(score, _)| *score < POOR);
    poor.map(|(_, action)| (*action).to_owned()).collect()
}
