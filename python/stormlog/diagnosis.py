"""Analyze runs. A finding states what the problem is, since when, on which rank, how certain it is,
and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Literal

from . import _core, _notebook

__all__ = [
    "Cause",
    "Coverage",
    "Failure",
    "Finding",
    "RankCoverage",
    "Report",
    "RunReport",
    "Site",
    "Verdict",
    "analyze",
]


@dataclass(frozen=True)
class Verdict:
    """The verdict: its status, its text in one line (``headline``), the highest severity, and the
    kinds of the findings with the kinds that these include. ``level`` is the severity in words."""

    status: Literal["clear", "findings", "not_enough_evidence"]
    headline: str
    severity: str | None
    level: Literal["problem", "likely", "note"] | None
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """A line of code of the program."""

    file: str
    line: int
    function: str
    source_text: str | None


@dataclass(frozen=True)
class Failure:
    """The failed allocation behind an out-of-memory error, and what held memory at that moment."""

    operation: str | None
    allocated_bytes: int | None
    categories: Mapping[str, int]
    # Each entry has the keys ``holder``, ``category`` and ``bytes``; the largest comes first.
    holders: tuple[Mapping[str, Any], ...]
    cut_short: str | None


@dataclass(frozen=True)
class Cause:
    """The line of code behind a finding, and which holder keeps the memory alive. ``site`` is the
    line that makes the memory stay, where it is known: ``site_role`` says that it "adds_items" to
    the container that grows, "assigns" the variable that keeps the memory, "registers" something
    that keeps it, "creates_holder", the object of a library that has the container, "sums" up tensors
    with their graphs, or "disables_collector". Otherwise ``site`` "allocates" the memory, or its
    allocation "fails". ``call_path`` has the calls that led to the allocation."""

    site: Site | None
    site_role: str
    # The line that allocates, where ``site`` is the line that makes the memory stay.
    allocated_at: Site | None
    call_path: tuple[Site, ...]
    holder: str | None
    attributed_bytes: int
    share: float
    # What held the memory when an allocation failed; None for other findings.
    failure: Failure | None


@dataclass(frozen=True)
class Finding:
    """One finding about a run, with its evidence. ``rank`` is ``None`` for a finding about all
    ranks."""

    kind: str
    severity: str
    rank: int | None
    device_id: int
    session_id: str
    onset_ns: int | None
    end_ns: int | None
    magnitude_bytes: int | None
    rate_bytes_per_s: float | None
    time_to_full_s: float | None
    confidence: float
    phase: str | None
    evidence: Mapping[str, float]
    # The finding in one line: its level, the holder, the line of code and the size.
    headline: str
    # Other kinds that the finding includes: growth that fills the memory soon is also an "oom_risk".
    also: tuple[str, ...]
    explanation: str
    advice: str
    cause: Cause | None


@dataclass(frozen=True)
class RankCoverage:
    """What was recorded of one rank; ``None`` is unknown, never zero."""

    rank: int
    host: str
    sessions: int
    samples: int
    first_timestamp_ns: int
    last_timestamp_ns: int
    median_interval_ns: int | None
    late_samples: int
    gaps: int
    longest_gap_ns: int
    peak_allocated_bytes: int | None
    peak_reserved_bytes: int | None
    peak_used_bytes: int | None
    last_used_bytes: int | None
    device_total_bytes: int | None


@dataclass(frozen=True)
class RunReport:
    """What was recorded of one run. ``run_id`` is the recorded id, otherwise the job id, otherwise
    the id of the first session.
    """

    job_id: str | None
    world_size: int
    session_ids: tuple[str, ...]
    headline: str
    verdicts: Mapping[str, str]
    ranks: tuple[RankCoverage, ...]
    missing_ranks: tuple[int, ...]
    run_id: str | None


@dataclass(frozen=True)
class Coverage:
    """How much was recorded in all artifacts together, and what could not be read (``damage``)."""

    events: int
    samples: int
    late_samples: int
    gaps: int
    longest_gap_ns: int
    first_timestamp_ns: int | None
    last_timestamp_ns: int | None
    damage: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, repr=False)
class Report:
    """The result of analyzing artifacts.

    ``str(report)`` is the text that ``stormlog analyze`` prints, ``document`` its JSON.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    coverage: Coverage
    runs: tuple[RunReport, ...]
    text: str
    document: Mapping[str, Any] = field(compare=False)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of all findings."""
        return self.verdict.kinds

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        ranks = sum(len(run.ranks) for run in self.runs)
        facts = f"{len(self.findings)} findings, {ranks} ranks, {self.coverage.samples} samples"
        return f"<Report {self.verdict.status}: {self.verdict.headline!r}, {facts}>"

    def _repr_html_(self) -> str:
        findings = _notebook.table(
            ("finding", "kind", "rank", "confidence", "what", "what to do"),
            (
                (
                    one.headline,
                    one.kind,
                    "all" if one.rank is None else one.rank,
                    f"{one.confidence:.0%}",
                    one.explanation,
                    one.advice,
                )
                for one in self.findings
            ),
        )
        amount = _notebook.amount
        ranks = _notebook.table(
            ("job", "rank", "host", "samples", "peak allocated", "peak used", "device"),
            (
                (
                    run.job_id or "", rank.rank, rank.host, rank.samples, amount(rank.peak_allocated_bytes),
                    amount(rank.peak_used_bytes), amount(rank.device_total_bytes),
                )
                for run in self.runs
                for rank in run.ranks[:_ROWS]
            ),
        )  # fmt: skip
        return _notebook.page(self.verdict.headline, findings, ranks)


# The maximum number of ranks of a run that a notebook shows.
_ROWS = 64


def analyze(
    path: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    session_id: str | None = None,
    rank: int | None = None,
    oom_horizon_hours: float = 24.0,
    skip_damaged: bool = False,
) -> Report:
    """Find the memory problems of the runs that are recorded at one or several paths.

    A path is a file, a folder with one file per rank, a sink or a bundle. Sessions with the same
    run id are one run. Without a run id, sessions with the same job id are one run, and without a
    job id, those of one sink.
    """
    paths = [path] if isinstance(path, (str, PathLike)) else list(path)
    document, text = _core.analyze_runs(
        [fspath(one) for one in paths], session_id, rank, oom_horizon_hours, skip_damaged
    )
    verdict, coverage = document["verdict"], document["coverage"]
    return Report(
        verdict=Verdict(**{**verdict, "kinds": tuple(verdict["kinds"])}),
        findings=tuple(_finding(finding) for finding in document["findings"]),
        coverage=Coverage(**{**coverage, "damage": tuple(coverage["damage"])}),
        runs=tuple(_run(run) for run in document["runs"]),
        text=text,
        document=document,
    )


def _finding(finding: dict[str, Any]) -> Finding:
    cause = finding["cause"]
    if cause is not None:
        site, failure = cause["site"], cause["failure"]
        allocated_at = cause["allocated_at"]
        cause = Cause(
            site=None if site is None else Site(**site),
            site_role=cause["site_role"],
            allocated_at=None if allocated_at is None else Site(**allocated_at),
            call_path=tuple(Site(**one) for one in cause["call_path"]),
            holder=cause["holder"],
            attributed_bytes=cause["attributed_bytes"],
            share=cause["share"],
            failure=None
            if failure is None
            else Failure(**{**failure, "holders": tuple(failure["holders"])}),
        )
    return Finding(**{**finding, "also": tuple(finding["also"]), "cause": cause})


def _run(run: dict[str, Any]) -> RunReport:
    return RunReport(
        job_id=run["job_id"],
        world_size=run["world_size"],
        session_ids=tuple(run["session_ids"]),
        headline=run["headline"],
        verdicts=run["verdicts"],
        ranks=tuple(RankCoverage(**rank) for rank in run["ranks"]),
        missing_ranks=tuple(run["missing_ranks"]),
        run_id=run["run_id"],
    )
