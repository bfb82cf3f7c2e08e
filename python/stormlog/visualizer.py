"""Plots of a profiler's results and of recorded events. The Rust core draws them; no plotting
library is needed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core
from ._compat.legacy_names import legacy_names
from ._plot_sources import calls_of, events_of, is_paths, paths_of, points_of, result_field
from .errors import InvalidValueError
from .figure import Figure

__all__ = ["Figure", "MemoryVisualizer"]

_RESULT_COLUMNS = (
    "function_name",
    "execution_time",
    "memory_allocated",
    "memory_freed",
    "peak_memory",
    "memory_diff",
    "tensors_created",
    "tensors_deleted",
)
_SNAPSHOT_COLUMNS = (
    "timestamp",
    "operation",
    "allocated_memory",
    "reserved_memory",
    "active_memory",
    "inactive_memory",
    "device_id",
)


class MemoryVisualizer:
    """Draws data of a profiler, a tracker, a session, events or an artifact.

    ``profiler`` is the default source of the plots: a profiler, a tracker, a loaded session, a list
    of events, or the path of an artifact. The same can be passed as ``results`` or ``snapshots`` of
    a single plot. Here, snapshots are the readings that a profiler took while it monitored.
    """

    def __init__(self, profiler: Any = None) -> None:
        self.profiler = profiler

    def plot_memory_timeline(
        self,
        results: Any = None,
        snapshots: Any = None,
        save_path: str | PathLike[str] | None = None,
        interactive: bool = True,
        *,
        kind: str = "timeline",
        session_id: str | None = None,
        title: str | None = None,
        theme: str = "system",
    ) -> Figure:
        """Memory over time, as a page (``.html``) or a picture (``.png``, ``.svg``).

        ``kind`` may also be ``ranks``, ``heatmap``, ``gap``, ``steps`` or ``dashboard`` if the data
        are events. With ``interactive=False`` a PNG has three times the resolution.
        """
        drawing = self._telemetry_drawing(results, snapshots, kind, session_id, title)
        if drawing is None:
            points = points_of(
                self._results(results, snapshots), self._snapshots(results, snapshots)
            )
            if not points:
                raise InvalidValueError("No data available for plotting")
            drawing = _core.Drawing.of_points(points, title or "Memory usage timeline")
        scale = 1.0 if interactive else 3.0
        return _saved(Figure(drawing, scale=scale), save_path, theme)

    def plot_cross_rank_timeline(
        self, events: Any, save_path: str | PathLike[str] | None = None, *, theme: str = "system"
    ) -> Figure:
        """All ranks on one time axis; the rank whose memory may have risen first is marked."""
        if is_paths(events):
            from .telemetry import load_telemetry_events

            loaded = [load_telemetry_events(path) for path in paths_of(events)]
            events = [event for of_path in loaded for event in of_path]
        rows = events_of(events)
        if rows is None or len(rows) == 0:
            raise InvalidValueError("No telemetry events available for cross-rank plotting")
        if not rows.has_samples():
            raise InvalidValueError("No timeline points available for cross-rank plotting")
        return _saved(Figure(_core.Drawing.of_ranks(rows)), save_path, theme)

    def plot_function_comparison(
        self,
        results: Any = None,
        metric: str = "memory_allocated",
        save_path: str | PathLike[str] | None = None,
        interactive: bool = True,
        *,
        theme: str = "system",
    ) -> Figure:
        """Compare profiled functions by a metric: ``memory_allocated``, ``execution_time`` or
        ``peak_memory``."""
        calls = calls_of(self._results(results, None))
        if not calls:
            raise InvalidValueError("No results available for comparison")
        if metric == "heatmap":
            raise InvalidValueError("Unknown metric: heatmap")
        drawing = _core.Drawing.of_functions(calls, metric)
        figure = Figure(drawing, height=None, scale=1.0 if interactive else 3.0)
        return _saved(figure, save_path, theme)

    def plot_memory_heatmap(
        self,
        results: Any = None,
        save_path: str | PathLike[str] | None = None,
        *,
        theme: str = "system",
    ) -> Figure:
        """A heat map of profiled functions, with a column each for time, allocated, freed and peak
        memory.

        The colors of a column are relative to its highest value. For events, the map shows the
        memory of the ranks over time.
        """
        drawing = self._telemetry_drawing(results, None, "heatmap", None, None)
        if drawing is None:
            calls = calls_of(self._results(results, None))
            if not calls:
                raise InvalidValueError("No results available for heatmap")
            drawing = _core.Drawing.of_functions(calls, "heatmap")
        return _saved(Figure(drawing, height=None, scale=2.0), save_path, theme)

    def create_dashboard(
        self,
        results: Any = None,
        snapshots: Any = None,
        save_path: str | PathLike[str] | None = None,
        *,
        theme: str = "system",
    ) -> Figure:
        """Draw memory over time and charts of the profiled functions on one page.

        The charts show the mean allocation of each function, the calls by allocated bytes, and time
        against allocated bytes.
        For events the page shows memory over time, hidden memory, findings and facts about the run.
        """
        drawing = self._telemetry_drawing(results, snapshots, "dashboard", None, None)
        if drawing is None:
            results, snapshots = (
                self._results(results, snapshots),
                self._snapshots(results, snapshots),
            )
            drawing = _core.Drawing.of_profile(points_of(results, snapshots), calls_of(results))
        return _saved(Figure(drawing, height=None, scale=1.0), save_path, theme)

    def export_data(
        self,
        results: Any = None,
        snapshots: Any = None,
        format: str = "csv",
        save_path: str | PathLike[str] = "memory_profile_data",
    ) -> str:
        """Write results and snapshots to one CSV file each, or both to one JSON file.

        The names of the files are ``save_path`` with the current time. Returns the path of the JSON
        file or of the first CSV file.
        """
        found = list(self._results(results, snapshots))
        taken = list(self._snapshots(results, snapshots))
        stamp = datetime.now().strftime("%Y%m%d_%H%M%S")
        if format == "json":
            path = f"{save_path}_{stamp}.json"
            metadata = {
                "export_time": stamp,
                "num_results": len(found),
                "num_snapshots": len(taken),
            }
            document = {
                "metadata": metadata,
                "results": [_as_dict(result) for result in found],
                "snapshots": [_as_dict(snapshot) for snapshot in taken],
            }
            Path(path).write_text(json.dumps(document, indent=2, default=str), encoding="utf-8")
            return path
        if format != "csv":
            raise InvalidValueError(f"Unsupported format: {format}")
        paths = []
        for name, columns, entries in (
            ("results", _RESULT_COLUMNS, found),
            ("snapshots", _SNAPSHOT_COLUMNS, taken),
        ):
            if entries:
                paths.append(f"{save_path}_{name}_{stamp}.csv")
                _write_csv(Path(paths[-1]), columns, entries)
        if not paths:
            raise InvalidValueError("No data available for CSV export")
        return paths[0]

    def show(self, fig: Figure) -> None:
        """Open a figure in a browser."""
        fig.show()

    def _telemetry_drawing(
        self,
        results: Any,
        snapshots: Any,
        kind: str,
        session_id: str | None,
        title: str | None,
    ) -> _core.Drawing | None:
        """The drawing if the data are events; ``None`` for a profiler's data."""
        given = [source for source in (results, snapshots) if source is not None]
        for source in given or [self.profiler]:
            if is_paths(source):
                return _core.Drawing.of_paths(paths_of(source), session_id, kind, title)
            rows = events_of(source)
            if rows is not None:
                return _core.Drawing.of_rows(rows, kind, title)
        return None

    def _results(self, results: Any, snapshots: Any) -> Iterable[Any]:
        return self._part("results", results, snapshots)

    def _snapshots(self, results: Any, snapshots: Any) -> Iterable[Any]:
        return self._part("snapshots", snapshots, results)

    def _part(self, name: str, given: Any, other: Any) -> Iterable[Any]:
        """The results or the snapshots, as ``name`` says: those that the caller gave, or else those
        of the profiler. Empty when the caller gave only ``other``."""
        source = given
        if source is None:
            source = None if other is not None else self.profiler
        if source is None:
            return ()
        part = getattr(source, name, None)
        if part is not None:
            return list(part)
        return list(source) if given is not None and isinstance(source, Iterable) else ()


def _saved(figure: Figure, save_path: str | PathLike[str] | None, theme: str) -> Figure:
    if save_path is not None:
        figure.save(save_path, theme=theme)
    return figure


def _as_dict(entry: Any) -> Any:
    if callable(getattr(entry, "to_dict", None)):
        return entry.to_dict()
    if is_dataclass(entry) and not isinstance(entry, type):
        return asdict(entry)
    return dict(entry) if isinstance(entry, Mapping) else vars(entry)


def _write_csv(path: Path, columns: tuple[str, ...], entries: list[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(entry, column) for column in columns] for entry in entries)


def _cell(entry: Any, column: str) -> Any:
    names = {"peak_memory": ("peak_memory_usage", "peak_memory")}.get(column, (column,))
    return result_field(entry, *names)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
