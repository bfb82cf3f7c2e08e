"""Attributes the gap between used and reserved device memory to collective communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from . import _core
from ._analysis_input import rows_of
from ._compat.legacy_names import legacy_names
from .phases import PhaseAttribution, PhaseReplayIndex, attribution_of, resolver_of
from .telemetry import TelemetryEventV2, TelemetryEventV3

__all__ = [
    "CollectiveAttributionConfig",
    "CollectiveAttributionEvidence",
    "CollectiveAttributionResult",
    "attribute_collective_memory",
    "resolve_collective_attribution_config",
]


@dataclass
class CollectiveAttributionConfig:
    """The thresholds that decide whether a gap is attributed to a collective operation."""

    preset: str = "medium"
    min_samples_per_rank: int = 6
    min_gap_bytes: int = 128 * 1024 * 1024
    min_gap_ratio: float = 0.04
    robust_zscore_threshold: float = 2.5
    marker_window_ns: int = 150_000_000
    interval_padding_ns: int = 120_000_000
    synchrony_window_ns: int = 120_000_000
    min_synchrony_ratio: float = 0.5
    min_confidence: float = 0.5


@dataclass
class CollectiveAttributionEvidence:
    """The numbers behind an attribution."""

    marker_hits: int
    synchronized_ranks: int
    expected_world_size: int
    synchrony_ratio: float
    peak_gap_bytes: int
    peak_gap_ratio: float | None
    robust_zscore: float


@dataclass
class CollectiveAttributionResult:
    """An interval in which the gap between used and reserved memory of a rank is attributed to a
    collective operation."""

    rank: int
    interval_start_ns: int
    interval_end_ns: int
    classification: str
    confidence: float
    reason_codes: list[str] = field(default_factory=list)
    evidence: CollectiveAttributionEvidence | None = None
    phase_attribution: PhaseAttribution | None = None


def resolve_collective_attribution_config(
    preset: str = "medium", overrides: Mapping[str, Any] | None = None
) -> CollectiveAttributionConfig:
    """The thresholds of a preset; ``overrides`` replaces some of them."""
    name, limits = _core.collective_preset((preset or "").strip())
    defaults = CollectiveAttributionConfig()
    # Each limit gets the type of its default: the core returns all of them as floats.
    values = {
        field_name: type(getattr(defaults, field_name))(limit)
        for field_name, limit in zip(_core.collective_fields_in_order(), limits, strict=True)
    }
    config = replace(defaults, preset=name, **values)
    if overrides:
        _core.check_collective_fields([str(name) for name in overrides])
        config = replace(config, **overrides)
    _core.check_collective_limits(_limits(config))
    return config


def attribute_collective_memory(
    events: Sequence[TelemetryEventV2 | TelemetryEventV3],
    *,
    config: CollectiveAttributionConfig | None = None,
    preset: str = "medium",
    overrides: Mapping[str, Any] | None = None,
    phase_resolver: PhaseReplayIndex | None = None,
) -> list[CollectiveAttributionResult]:
    """Intervals in which the gap between used and reserved memory of a rank is attributed to a
    collective operation."""
    if config is None:
        config = resolve_collective_attribution_config(preset, overrides)
    found = _core.attribute_collectives(
        rows_of(events), _limits(config), resolver_of(phase_resolver)
    )
    return [_result(fields) for fields in found]


def _limits(config: CollectiveAttributionConfig) -> list[float]:
    return [getattr(config, name) for name in _core.collective_fields_in_order()]


def _result(fields: dict[str, Any]) -> CollectiveAttributionResult:
    fields["evidence"] = CollectiveAttributionEvidence(**fields["evidence"])
    fields["phase_attribution"] = attribution_of(fields["phase_attribution"])
    return CollectiveAttributionResult(**fields)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
