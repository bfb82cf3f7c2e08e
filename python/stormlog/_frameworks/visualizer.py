"""Draws and exports the results of a framework's profiler or tracker. The Rust core draws."""

from __future__ import annotations

import csv
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..errors import InvalidValueError
from ..figure import Figure
from .sizes import MB

logger = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000
# Pixels per inch of a matplotlib figure.
_PIXELS = 100
_SavePath = str | PathLike[str] | None


class Moment(NamedTuple):
    """One reading of memory: a sample of a tracker or a snapshot of a profiler.

    The time is in seconds since 1970, sizes are in bytes.
    """

    timestamp: float
    used: float
    reserved: float
    name: str


class FrameworkVisualizer(ABC):
    """Draws profile results and tracking results, and exports them to files.

    The methods that draw return the figure, or None when there is nothing to draw. Saved drawings
    are dark if ``style`` contains the word ``dark``, and light with any other style.
    """

    # The keys of a profiled function's total and peak memory, and the number of bytes in one unit
    # of their values.
    _total_key: str
    _peak_key: str
    _unit: float

    def __init__(self, style: str = "default", figure_size: tuple[int, int] = (12, 8)) -> None:
        self.style = style
        self.figure_size = figure_size

    @abstractmethod
    def _moments(self, results: Any) -> list[Moment]: ...

    @abstractmethod
    def _rows(self, results: Any) -> list[dict[str, Any]]:
        """The values to export for each reading of memory."""

    def _document(self, results: Any, rows: list[dict[str, Any]]) -> Any:
        """The content of the exported JSON file."""
        return rows

    def plot_memory_timeline(
        self, results: Any, interactive: bool = False, save_path: _SavePath = None
    ) -> Figure | None:
        """Draw memory over time; with ``save_path``, save it as a page (``.html``) or a picture
        (``.png``, ``.svg``). ``interactive`` has no effect."""
        points = self._points(results)
        if not points:
            logger.warning("no memory to plot")
            return None
        return self._drawn(_core.Drawing.of_points(points, "Memory usage timeline"), save_path)

    def plot_function_comparison(
        self, function_profiles: dict[str, dict[str, Any]], save_path: _SavePath = None
    ) -> Figure | None:
        """Draw the peak memory of each profiled function."""
        return self._functions_drawn(function_profiles, "peak_memory", save_path)

    def create_memory_heatmap(self, results: Any, save_path: _SavePath = None) -> Figure | None:
        """Draw a table of the profiled functions, with one column each for time, allocated, freed
        and peak memory. The colours of each column are scaled by its highest value."""
        profiles = getattr(results, "function_profiles", None)
        return self._functions_drawn(profiles, "heatmap", save_path)

    def create_interactive_dashboard(self, results: Any, port: int = 8050) -> Figure | None:
        """Show the timeline and the profiled functions on one page in a browser.

        The page needs no server, so ``port`` has no effect.
        """
        points = self._points(results)
        calls = self._calls(getattr(results, "function_profiles", None))
        if not points and not calls:
            logger.warning("nothing to show")
            return None
        figure = Figure(_core.Drawing.of_profile(points, calls), height=None)
        figure.show()
        return figure

    def save_plots(self, results: Any, output_dir: str = "./plots/") -> None:
        """Save the drawings for which the results have data as PNG files in a directory."""
        folder = Path(output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.plot_memory_timeline(results, save_path=folder / "timeline.png")
        profiles = getattr(results, "function_profiles", None)
        if profiles:
            self.plot_function_comparison(profiles, save_path=folder / "function_comparison.png")
            self.create_memory_heatmap(results, save_path=folder / "heatmap.png")

    def export_data(self, results: Any, output_path: str, format: str = "csv") -> None:
        """Write every reading of memory to a file; ``format`` is ``csv`` or ``json``."""
        if format not in ("csv", "json"):
            raise InvalidValueError("format must be csv or json")
        rows = self._rows(results)
        if format == "json":
            text = json.dumps(self._document(results, rows), indent=2)
            Path(output_path).write_text(text, encoding="utf-8")
            return
        if not rows:
            logger.warning("nothing to export")
            return
        with Path(output_path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _points(self, results: Any) -> list[tuple[int, int, int, str]]:
        return [
            (int(one.timestamp * _NANOSECONDS), int(one.used), int(one.reserved), one.name)
            for one in self._moments(results)
        ]

    def _functions_drawn(
        self, profiles: Mapping[str, Any] | None, what: str, save_path: _SavePath
    ) -> Figure | None:
        calls = self._calls(profiles)
        if not calls:
            logger.warning("no profiled functions to plot")
            return None
        return self._drawn(_core.Drawing.of_functions(calls, what), save_path)

    def _calls(
        self, profiles: Mapping[str, Mapping[str, Any]] | None
    ) -> list[tuple[str, float, int, int, int]]:
        calls = []
        for name, profile in (profiles or {}).items():
            change = int(profile.get(self._total_key, 0) * self._unit)
            peak = int(profile.get(self._peak_key, 0) * self._unit)
            seconds = float(profile.get("total_duration", 0.0))
            calls.append((str(name), seconds, max(change, 0), max(-change, 0), peak))
        return calls

    def _drawn(self, drawing: _core.Drawing, save_path: _SavePath) -> Figure:
        width, height = (int(side * _PIXELS) for side in self.figure_size)
        figure = Figure(drawing, width=width, height=height)
        if save_path is not None:
            figure.save(save_path, theme="dark" if "dark" in self.style else "light")
        return figure


def sampled(results: Any, unit: float = MB) -> list[Moment]:
    """The samples of a tracking result. ``unit`` is the number of bytes in one unit of its
    ``memory_usage``."""
    pairs = zip(getattr(results, "timestamps", ()), getattr(results, "memory_usage", ()))
    return [Moment(float(time), used * unit, used * unit, "sample") for time, used in pairs]
