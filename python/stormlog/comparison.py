"""Compare two runs: changes beyond the noise, new findings, gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from . import _core, _notebook

__all__ = [
    "ComparedFinding",
    "Comparison",
    "FindingChanges",
    "Gate",
    "MetricChange",
    "PhaseComparison",
    "RankComparison",
    "Side",
    "compare",
    "save_baseline",
]


@dataclass(frozen=True)
class MetricChange:
    """The values of one metric in the two compared runs; ``None`` is unknown, never zero."""

    metric: str
    unit: Literal["bytes", "bytes_per_s", "bytes_per_step"]
    base: float | None
    base_noise: float | None
    new: float | None
    new_noise: float | None
    change: float | None
    change_ratio: float | None
    verdict: Literal[
        "unchanged",
        "within_noise",
        "too_small",
        "lower",
        "higher",
        "not_comparable",
        "not_enough_evidence",
    ]


@dataclass(frozen=True)
class PhaseComparison:
    """The comparison of one phase of a rank; both runs have the phase."""

    name: str
    metrics: tuple[MetricChange, ...]


@dataclass(frozen=True)
class RankComparison:
    """The comparison of one rank that both runs have."""

    rank: int
    device_id: int
    base_samples: int
    new_samples: int
    metrics: tuple[MetricChange, ...]
    phases: tuple[PhaseComparison, ...]
    phases_only_in_base: tuple[str, ...]
    phases_only_in_new: tuple[str, ...]


@dataclass(frozen=True)
class ComparedFinding:
    """A finding of one of the two compared runs."""

    kind: str
    rank: int | None
    severity: str
    confidence: float
    explanation: str


@dataclass(frozen=True)
class FindingChanges:
    """The findings of two runs, grouped by which of the runs has them.

    ``unanswered`` are findings of the base run that may or may not be gone, because too little
    was recorded of the new run.
    """

    new: tuple[ComparedFinding, ...]
    gone: tuple[ComparedFinding, ...]
    unanswered: tuple[ComparedFinding, ...]
    shared: tuple[ComparedFinding, ...]


@dataclass(frozen=True)
class Gate:
    """A limit on the new run, and whether the run passed it. The status is ``not_judged`` when the
    limit could not be evaluated; the comparison then does not pass."""

    gate: str
    limit: str
    status: Literal["passed", "failed", "not_judged"]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """One of the two compared runs: its source, job, ranks and number of samples."""

    source: str
    job_id: str | None
    ranks: tuple[int, ...]
    samples: int


@dataclass(frozen=True, repr=False)
class Comparison:
    """The comparison of two runs.

    ``str(comparison)`` is the text that ``stormlog compare`` prints, ``document`` its JSON.
    """

    status: Literal["unchanged", "within_noise", "higher", "lower", "mixed", "not_enough_evidence"]
    headline: str
    passed: bool
    base: Side
    new: Side
    ranks: tuple[RankComparison, ...]
    ranks_only_in_base: tuple[int, ...]
    ranks_only_in_new: tuple[int, ...]
    findings: FindingChanges
    gates: tuple[Gate, ...]
    notes: tuple[str, ...]
    text: str
    document: Mapping[str, Any] = field(compare=False)

    def changes(self) -> Iterator[tuple[int, str | None, MetricChange]]:
        """Increased and decreased metrics, each with its rank and the name of its phase. The name
        is None for a metric of the whole rank."""
        for rank, phase, metric in self._all():
            if metric.verdict in ("higher", "lower"):
                yield rank, phase, metric

    def _all(self) -> Iterator[tuple[int, str | None, MetricChange]]:
        for rank in self.ranks:
            yield from ((rank.rank, None, metric) for metric in rank.metrics)
            for phase in rank.phases:
                yield from ((rank.rank, phase.name, metric) for metric in phase.metrics)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        gates = (
            f", {len(self.gates)} gates {'hold' if self.passed else 'do not all hold'}"
            if self.gates
            else ""
        )
        return f"<Comparison {self.status}: {self.headline!r}, {len(self.ranks)} ranks{gates}>"

    def _repr_html_(self) -> str:
        gates = _notebook.table(
            ("gate", "limit", "status", "why"),
            (
                (one.gate, one.limit, one.status, "; ".join(one.reasons[:_REASONS]))
                for one in self.gates
            ),
        )
        amount = _notebook.amount
        rows = [
            (
                rank, phase or "", one.metric, amount(one.base, one.unit), amount(one.new, one.unit),
                amount(one.change, one.unit), one.verdict,
            )
            for rank, phase, one in self._all()
        ]  # fmt: skip
        # Changed metrics come first; the sort keeps the order of the others.
        rows.sort(key=lambda row: row[-1] not in ("higher", "lower"))
        numbers = _notebook.table(
            ("rank", "phase", "what", "base", "new", "change", "verdict"), rows[:_ROWS]
        )
        findings = _notebook.table(
            ("finding", "kind", "rank", "what"),
            (
                (name, one.kind, "all" if one.rank is None else one.rank, one.explanation)
                for name in ("new", "gone", "unanswered", "shared")
                for one in getattr(self.findings, name)
            ),
        )
        notes = "".join(_notebook.heading(note) for note in self.notes)
        return _notebook.page(self.headline, findings, gates, numbers, notes)


# The maximum number of metrics, and of reasons of one gate, that a notebook shows.
_ROWS = 200
_REASONS = 5


def compare(
    base: str | PathLike[str],
    new: str | PathLike[str],
    *,
    max_peak_growth: str | None = None,
    max_slope: str | None = None,
    max_leak_per_step: str | None = None,
    max_gap_growth: str | None = None,
    fail_on: Iterable[str] = (),
    session_id: str | None = None,
    base_session_id: str | None = None,
    rank: int | None = None,
    oom_horizon_hours: float = 24.0,
    skip_damaged: bool = False,
) -> Comparison:
    """Compare the memory of two runs and evaluate the given limits.

    Each run is given as a file, a folder with one file per rank, a sink, a bundle, or a saved
    baseline. Limits are written as on the command line: ``"20%"``, ``"512MiB"``, ``"10MB/min"``,
    ``"1MB/step"``; ``fail_on`` takes ``"new-findings"`` and ``"higher"``. A limit that cannot be
    evaluated does not pass.
    """
    document, text = _core.compare_runs(
        base, new, max_peak_growth, max_slope, max_leak_per_step, max_gap_growth, list(fail_on), session_id,
        base_session_id, rank, oom_horizon_hours, skip_damaged,
    )  # fmt: skip
    findings = {
        name: tuple(ComparedFinding(**one) for one in found)
        for name, found in document["findings"].items()
    }
    return Comparison(
        **document["verdict"],
        base=_side(document["base"]),
        new=_side(document["new"]),
        ranks=tuple(_rank(rank) for rank in document["ranks"]),
        ranks_only_in_base=tuple(one["rank"] for one in document["ranks_only_in_base"]),
        ranks_only_in_new=tuple(one["rank"] for one in document["ranks_only_in_new"]),
        findings=FindingChanges(**findings),
        gates=tuple(
            Gate(**{**gate, "reasons": tuple(gate["reasons"])}) for gate in document["gates"]
        ),
        notes=tuple(document["notes"]),
        text=text,
        document=document,
    )


def save_baseline(
    run: str | PathLike[str],
    file: str | PathLike[str],
    *,
    session_id: str | None = None,
    rank: int | None = None,
    oom_horizon_hours: float = 24.0,
    skip_damaged: bool = False,
) -> None:
    """Save the metrics and findings of a run to ``file``, as a baseline for later comparisons."""
    _core.save_baseline(run, file, session_id, rank, oom_horizon_hours, skip_damaged)


def _side(side: dict[str, Any]) -> Side:
    return Side(**{**side, "ranks": tuple(side["ranks"])})


def _metrics(metrics: list[dict[str, Any]]) -> tuple[MetricChange, ...]:
    return tuple(MetricChange(**metric) for metric in metrics)


def _rank(rank: dict[str, Any]) -> RankComparison:
    return RankComparison(
        **{
            **rank,
            "metrics": _metrics(rank["metrics"]),
            "phases": tuple(
                PhaseComparison(phase["name"], _metrics(phase["metrics"]))
                for phase in rank["phases"]
            ),
            "phases_only_in_base": tuple(rank["phases_only_in_base"]),
            "phases_only_in_new": tuple(rank["phases_only_in_new"]),
        }
    )
