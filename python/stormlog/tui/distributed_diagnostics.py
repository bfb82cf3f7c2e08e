"""Loads the artifacts of many ranks, and makes a table of the ranks and their anomalies."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import _core
from .._analysis_input import rows_of
from ..telemetry import LoadedTelemetrySession, TelemetryEventV2, TelemetryEventV3
from ..timeline_markers import TimelineMarker, derive_timeline_markers

__all__ = [
    "AnomalyIndicator",
    "ArtifactLoadResult",
    "DistributedDiagnosticsModel",
    "RankDiagnosticsRow",
    "build_distributed_model",
    "load_distributed_artifacts",
    "parse_rank_filter",
]


@dataclass
class ArtifactLoadResult:
    """The sessions loaded from the given paths, and the events of the selected session."""

    events: MutableSequence[TelemetryEventV3]
    sessions: list[LoadedTelemetrySession]
    selected_session_id: str | None
    warnings: list[str]
    sources_loaded: list[str]
    markers: list[TimelineMarker] = field(default_factory=list)


@dataclass
class RankDiagnosticsRow:
    """A rank in the table; bytes are None where no record has a known value."""

    rank: int
    availability: str
    samples: int
    allocated_delta_bytes: int
    reserved_delta_bytes: int
    hidden_gap_latest_bytes: int
    hidden_gap_peak_abs_bytes: int
    has_anomaly: bool
    first_anomaly_timestamp_ns: int | None = None
    first_anomaly_signal: str | None = None
    first_anomaly_phase_path: str | None = None


@dataclass
class AnomalyIndicator:
    """An anomaly of a rank: the earliest or the most severe one of the run."""

    kind: str
    rank: int
    severity: str
    timestamp_ns: int
    signal: str
    details: str
    confidence: float | None = None
    reason_codes: list[str] = field(default_factory=list)
    phase_path: str | None = None


@dataclass
class DistributedDiagnosticsModel:
    """The table of a run's ranks, their anomalies, and their memory over time."""

    rows: list[RankDiagnosticsRow]
    indicators: list[AnomalyIndicator]
    expected_ranks: list[int]
    present_ranks: list[int]
    missing_ranks: list[int]
    per_rank_timelines: dict[int, dict[str, list[int]]]
    warnings: list[str] = field(default_factory=list)
    markers_by_rank: dict[int, list[TimelineMarker]] = field(default_factory=dict)


def load_distributed_artifacts(
    paths: list[Path], session_id: str | None = None
) -> ArtifactLoadResult:
    """Load artifacts and folders of artifacts; the ranks of one job become one session."""
    found, selected, warnings, sources = _core.gather_artifacts(list(paths), session_id)
    sessions = [LoadedTelemetrySession._of_fields(*of_session) for of_session in found]
    chosen = None if selected is None else sessions[selected]
    events_of_chosen: MutableSequence[TelemetryEventV3] = [] if chosen is None else chosen.events
    return ArtifactLoadResult(
        events=events_of_chosen,
        sessions=sessions,
        selected_session_id=None if chosen is None else chosen.summary.session_id,
        warnings=warnings,
        sources_loaded=sources,
        markers=derive_timeline_markers(events_of_chosen),
    )


def build_distributed_model(
    events: Sequence[TelemetryEventV2 | TelemetryEventV3],
    selected_ranks: set[int] | None = None,
) -> DistributedDiagnosticsModel:
    """Make the table of ranks and the anomalies of events, for all ranks or the selected ones."""
    fields = _core.distributed_model(rows_of(events), selected_ranks)
    fields["rows"] = [RankDiagnosticsRow(**row) for row in fields["rows"]]
    fields["indicators"] = [AnomalyIndicator(**one) for one in fields["indicators"]]
    model = DistributedDiagnosticsModel(**fields)
    for marker in derive_timeline_markers(events):
        if marker.rank is not None and marker.rank in model.expected_ranks:
            model.markers_by_rank.setdefault(marker.rank, []).append(marker)
    return model


def parse_rank_filter(expr: str, available_ranks: list[int]) -> set[int]:
    """The available ranks that a filter text such as ``all``, ``0,2`` or ``0,4-7`` selects."""
    return _core.parse_rank_filter(expr, available_ranks)
