"""What to do about memory in TensorFlow programs."""

from __future__ import annotations

from typing import Any

GAP_REMEDIATION = {
    "transient_spike": [
        "Investigate non-allocator memory consumers active during spikes"
        " (cuDNN workspace, XLA temporaries, other frameworks).",
        "Use tf.config.experimental.get_memory_info() around spike windows.",
        "Consider setting tf.config.experimental.set_memory_growth(gpu, True).",
    ],
    "persistent_drift": [
        "Look for non-TensorFlow GPU allocations accumulating over time"
        " (e.g. custom CUDA ops, third-party libraries).",
        "Monitor nvidia-smi used memory alongside TF allocator counters.",
        "If gap stabilises after warmup, it may be one-time runtime overhead.",
    ],
    "fragmentation_like": [
        "Enable memory growth with tf.config.experimental.set_memory_growth(gpu, True).",
        "Reduce allocation churn by reusing tensors or using tf.function.",
        "Consider setting a hard memory limit with tf.config.set_logical_device_configuration().",
    ],
}

_LARGE = (
    "Consider using tf.keras.utils.Sequence for data loading to reduce memory usage",
    "Enable mixed precision training with tf.keras.mixed_precision.Policy('mixed_float16')",
    "Use gradient checkpointing with tf.recompute_grad for large models",
)
_MIDDLING = (
    "Consider reducing batch size or using gradient accumulation",
    "Use tf.data.Dataset.prefetch() and tf.data.Dataset.cache() for efficient data loading",
    "Enable memory growth: tf.config.experimental.set_memory_growth(gpu, True)",
)
_GROWING = (
    "High memory growth detected - check for memory leaks in custom ops",
    "Use tf.function decorator to optimize computation graphs",
    "Consider using tf.data.Dataset instead of feeding numpy arrays",
)
_FRAGMENTED = (
    "High memory fragmentation detected - consider using smaller batch sizes",
    "Use tf.config.experimental.set_virtual_device_configuration() to limit GPU memory",
)
_GENERAL = (
    "Use tf.data.Dataset.map() with num_parallel_calls=tf.data.AUTOTUNE for preprocessing",
    "Enable XLA compilation with tf.config.optimizer.set_jit(True)",
    "Consider using tf.distribute.Strategy for multi-GPU training",
    "Use tf.keras.callbacks.ReduceLROnPlateau to prevent overfitting"
    " and reduce memory over time",
)
_MOST = 5
_POOR = 6


def recommendations(profile_result: Any, fragmentation: float) -> list[str]:
    """The first five things to do about a profile."""
    peak = getattr(profile_result, "peak_memory_mb", None)
    if peak is None:
        return []
    advice = [*_LARGE] if peak > 8000 else []
    if peak > 4000:
        advice += _MIDDLING
    if getattr(profile_result, "memory_growth_rate", 0.0) > 100:
        advice += _GROWING
    if fragmentation > 0.3:
        advice += _FRAGMENTED
    return [*advice, *_GENERAL][:_MOST]


def priority_actions(memory: float, fragmentation: float, performance: float) -> list[str]:
    """What the scores say to do first."""
    actions = (
        (memory, "Address memory efficiency issues"),
        (fragmentation, "Reduce memory fragmentation"),
        (performance, "Optimize function performance"),
    )
    return [action for score, action in actions if score < _POOR]
