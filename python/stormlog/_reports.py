"""Parts of the reports of ``stormlog.analyzer`` and of the TensorFlow and JAX analyzers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .collective_attribution import CollectiveAttributionResult
from .gap_analysis import GapFinding
from .phases import phase_attribution_to_payload

if TYPE_CHECKING:
    from .analyzer import MemoryPattern, PerformanceInsight

TORCH_REMEDIATION = {
    "transient_spike": [
        "Investigate non-allocator memory consumers active during spikes"
        " (cuDNN workspace, NCCL buffers, other frameworks).",
        "Use torch.cuda.memory_snapshot() around spike windows for detailed attribution.",
        "Consider pinning cuDNN workspace size with torch.backends.cudnn.benchmark = False.",
    ],
    "persistent_drift": [
        "Look for non-PyTorch CUDA allocations accumulating over time"
        " (e.g. custom CUDA kernels, third-party libraries).",
        "Monitor nvidia-smi used memory alongside torch allocator counters.",
        "If gap stabilises after warmup, it may be one-time CUDA context overhead.",
    ],
    "fragmentation_like": [
        "Call torch.cuda.empty_cache() periodically to release unused reserved blocks.",
        "Reduce allocation churn by pre-allocating tensors or using memory pools.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to reduce fragmentation.",
    ],
}

_MOST_RECOMMENDATIONS = 10


def finding_to_dict(finding: GapFinding | CollectiveAttributionResult) -> dict[str, Any]:
    """The finding as a dictionary, in the form in which reports contain it."""
    fields = asdict(finding)
    fields["phase_attribution"] = phase_attribution_to_payload(finding.phase_attribution)
    return fields


def recommendations(
    patterns: list[MemoryPattern], insights: list[PerformanceInsight]
) -> list[dict[str, Any]]:
    """At most ten recommendations, the most important first: those of critical patterns, then of
    insights with high impact, then of patterns that are warnings."""
    critical = [_from_pattern(p, "high") for p in patterns if p.severity == "critical"]
    high = [
        {
            "priority": "high",
            "category": insight.category,
            "description": insight.description,
            "suggestions": insight.recommendations,
        }
        for insight in insights
        if insight.impact == "high"
    ]
    warnings = [_from_pattern(p, "medium") for p in patterns if p.severity == "warning"]
    return [*critical, *high, *warnings][:_MOST_RECOMMENDATIONS]


def _from_pattern(pattern: MemoryPattern, priority: str) -> dict[str, Any]:
    return {
        "priority": priority,
        "category": pattern.pattern_type,
        "description": pattern.description,
        "suggestions": pattern.suggestions,
    }
