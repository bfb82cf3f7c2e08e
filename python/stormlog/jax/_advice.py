"""Advice about memory that the device uses outside of JAX."""

from __future__ import annotations

GAP_REMEDIATION = {
    "transient_spike": [
        "Look at what else uses the device while it spikes: other processes, custom calls,"
        " collectives.",
        "Save a device memory profile around the spike with"
        " jax.profiler.save_device_memory_profile().",
    ],
    "persistent_drift": [
        "Look for memory that libraries beside JAX take from the device over time.",
        "Watch nvidia-smi beside the allocator's own counters.",
        "A gap that stays the same after the first steps is what the runtime itself needs.",
    ],
    "fragmentation_like": [
        "Use the same array shapes in every step, so that freed blocks fit the next step.",
        "Try XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async, which returns unused memory.",
        "Limit the pool with XLA_PYTHON_CLIENT_MEM_FRACTION.",
    ],
}
