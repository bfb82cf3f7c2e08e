"""Plots from Python: users' scripts as they are, and every source of data."""

from __future__ import annotations

import csv
import inspect
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormlog.cpu_profiler import CPUMemoryProfiler
from stormlog.errors import StormlogError
from stormlog.profiler import GPUMemoryProfiler
from stormlog.visualizer import Figure, MemoryVisualizer
from test_pages_in_browser import GIB, START, events, record


@dataclass
class Snapshot:
    """A snapshot as profilers take it."""

    timestamp: float
    allocated_memory: int
    reserved_memory: int
    active_memory: int = 0
    inactive_memory: int = 0
    device_id: int = 0
    operation: str | None = None


@dataclass
class Result:
    """A profiled call as profilers report it."""

    function_name: str
    execution_time: float
    memory_before: Snapshot
    memory_after: Snapshot
    memory_allocated: int
    memory_freed: int
    tensors_created: int = 0
    tensors_deleted: int = 0

    @property
    def memory_diff(self) -> int:
        return self.memory_after.allocated_memory - self.memory_before.allocated_memory

    @property
    def peak_memory_usage(self) -> int:
        return self.memory_after.allocated_memory


class Profiler:
    """A profiler, as far as plots look at it."""

    def __init__(self) -> None:
        self.snapshots = [
            Snapshot(1000.0 + i, i * GIB, i * GIB + 7, operation=f"op{i}") for i in range(9)
        ]
        self.results = [
            Result(f"f{i % 3}", 0.1 * i, self.snapshots[i], self.snapshots[i + 1], i * GIB, 5)
            for i in range(8)
        ]


def png_size(path: Path) -> tuple[int, int]:
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def test_the_timeline_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    profiler = Profiler()

    # As users write it today.
    from stormlog import MemoryVisualizer

    visualizer = MemoryVisualizer(profiler)
    visualizer.plot_memory_timeline(save_path="timeline.png")
    visualizer.plot_memory_timeline(save_path="timeline.html")

    assert png_size(tmp_path / "timeline.png") == (1200, 800)
    page = (tmp_path / "timeline.html").read_text()
    assert "Content-Security-Policy" in page
    assert "op4" in page


def test_the_cross_rank_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifacts").mkdir()
    for rank in range(4):
        records = [record(rank, step, world_size=4) for step in range(60)]
        for step in range(30 + rank, 60):
            records[step]["device_used_bytes"] += GIB * (step - 29 - rank)
        Path(f"artifacts/events_rank{rank}.json").write_text(json.dumps(records))

    # As users write it today.
    from stormlog import MemoryVisualizer, load_telemetry_events

    events = []
    for rank in range(4):
        events.extend(load_telemetry_events(f"artifacts/events_rank{rank}.json"))
    visualizer = MemoryVisualizer()
    figure = visualizer.plot_cross_rank_timeline(events=events, save_path="cross_rank.png")

    assert png_size(tmp_path / "cross_rank.png") == (1200, 800)
    assert figure.title == "Cross-Rank Memory Timeline (browser-test) - top suspect rank 0"
    svg = figure.to_svg()
    assert "rank 0: first cause" in svg and "cluster onset" in svg


def test_signatures_are_the_references() -> None:
    expected = {
        "plot_memory_timeline": ["results", "snapshots", "save_path", "interactive"],
        "plot_cross_rank_timeline": ["events", "save_path"],
        "plot_function_comparison": ["results", "metric", "save_path", "interactive"],
        "plot_memory_heatmap": ["results", "save_path"],
        "create_dashboard": ["results", "snapshots", "save_path"],
        "export_data": ["results", "snapshots", "format", "save_path"],
        "show": ["fig"],
    }
    for name, names in expected.items():
        parameters = inspect.signature(getattr(MemoryVisualizer, name)).parameters
        positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == ["self", *names]


class Tracker:
    """A tracker, as far as plots look at it."""

    def get_events(self) -> list[Any]:
        return list(events(ranks=1))


def sources(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(events(ranks=1)))
    from stormlog.telemetry import load_telemetry_events, load_telemetry_sessions

    return {
        "path": path,
        "path as text": str(path),
        "records": events(ranks=1),
        "events": load_telemetry_events(path),
        "changed events": list(load_telemetry_events(path)),
        "sessions": list(load_telemetry_sessions(path)),
        "session": load_telemetry_sessions(path)[0],
        "tracker": Tracker(),
    }


@pytest.mark.parametrize("given", ["profiler", "results", "snapshots"])
def test_every_source_gives_the_same_plot(tmp_path: Path, given: str) -> None:
    drawn = {}
    for name, source in sources(tmp_path).items():
        if given == "profiler":
            figure = MemoryVisualizer(source).plot_memory_timeline()
        else:
            figure = MemoryVisualizer().plot_memory_timeline(**{given: source})
        svg = figure.to_svg()
        assert "CUDA out of memory" in svg, name
        drawn[name] = svg.count("L")
    assert len(set(drawn.values())) == 1, drawn


def test_tracking_events_are_drawn() -> None:
    @dataclass
    class TrackingEvent:
        timestamp: float
        event_type: str
        memory_allocated: int
        memory_reserved: int
        memory_change: int = 0
        device_id: int = 0
        context: str | None = None
        metadata: dict[str, Any] | None = None

    found = [TrackingEvent(1000.0 + i / 10, "sample", i << 20, i << 21) for i in range(50)]
    svg = MemoryVisualizer(found).plot_memory_timeline().to_svg()
    assert "allocated (peak 49.0 MiB)" in svg and "reserved (peak 98.0 MiB)" in svg


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
@pytest.mark.parametrize("kind", ["timeline", "ranks", "heatmap", "gap", "dashboard"])
def test_kinds_and_formats(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"plot.{suffix}"
    MemoryVisualizer(events()).plot_memory_timeline(save_path=path, kind=kind, theme="dark")
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}[suffix]
    assert path.read_bytes().startswith(start)


def test_functions(tmp_path: Path) -> None:
    visualizer = MemoryVisualizer(Profiler())
    expected = {
        "memory_allocated": "3.00 GiB",
        "execution_time": "300.0 ms",
        "peak_memory": "8.00 GiB",
    }
    for metric, text in expected.items():
        figure = visualizer.plot_function_comparison(metric=metric, interactive=False)
        svg = figure.to_svg()
        assert text in svg and all(f">f{n}<" in svg for n in range(3)), metric
    assert "peak" in visualizer.plot_memory_heatmap(save_path=tmp_path / "heat.png").to_svg()
    page = visualizer.create_dashboard(save_path=tmp_path / "dashboard.html").to_html()
    assert "script-src &#39;none&#39;" in page and "calls by allocated bytes" in page


def test_nothing_to_plot() -> None:
    visualizer = MemoryVisualizer()
    cases = [
        (visualizer.plot_memory_timeline, {}, "No data available for plotting"),
        (visualizer.plot_function_comparison, {}, "No results available for comparison"),
        (
            visualizer.plot_function_comparison,
            {"results": [], "metric": "x"},
            "No results available for comparison",
        ),
        (
            visualizer.plot_function_comparison,
            {"results": Profiler().results, "metric": "x"},
            "Unknown metric: x",
        ),
        (visualizer.plot_memory_heatmap, {}, "No results available for heatmap"),
        (visualizer.export_data, {}, "No data available for CSV export"),
        (
            visualizer.export_data,
            {"results": Profiler().results, "format": "x"},
            "Unsupported format: x",
        ),
        (
            visualizer.plot_cross_rank_timeline,
            {"events": []},
            "No telemetry events available for cross-rank plotting",
        ),
        (
            visualizer.plot_cross_rank_timeline,
            {"events": [record(0, 0, event_type="start")]},
            "No timeline points available for cross-rank plotting",
        ),
    ]
    for function, arguments, message in cases:
        with pytest.raises(ValueError) as caught:
            function(**arguments)
        assert str(caught.value) == message
        assert isinstance(caught.value, StormlogError)
    # As in stormlog 0.3.9, an empty dashboard is no error.
    assert visualizer.create_dashboard().to_svg().startswith("<svg")


def test_a_figure_shows_itself_in_notebooks() -> None:
    figure = MemoryVisualizer(events(ranks=1)).plot_memory_timeline()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    frame = figure._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in frame
    assert frame.count("<") == 2


def test_names_tell_the_format(tmp_path: Path) -> None:
    figure = MemoryVisualizer(events(ranks=1)).plot_memory_timeline()
    assert figure.save(tmp_path / "plain") == tmp_path / "plain.png"
    figure.savefig(tmp_path / "a.png", dpi=300, bbox_inches="tight")
    figure.write_html(tmp_path / "b.html", include_plotlyjs=True)
    with pytest.raises(ValueError, match="use a name that ends in"):
        figure.save(tmp_path / "c.pdf")
    with pytest.raises(ValueError, match="unknown theme"):
        figure.to_svg(theme="solarized")


def test_static_pictures_are_sharp(tmp_path: Path) -> None:
    path = tmp_path / "static.png"
    MemoryVisualizer(Profiler()).plot_memory_timeline(save_path=path, interactive=False)
    assert png_size(path) == (3600, 2400)


def test_export(tmp_path: Path) -> None:
    visualizer = MemoryVisualizer(Profiler())
    base = tmp_path / "data"
    path = Path(visualizer.export_data(save_path=base))
    assert path.name.startswith("data_results_") and path.suffix == ".csv"
    rows = list(csv.DictReader(path.open()))
    assert list(rows[0]) == [
        "function_name",
        "execution_time",
        "memory_allocated",
        "memory_freed",
        "peak_memory",
        "memory_diff",
        "tensors_created",
        "tensors_deleted",
    ]
    assert rows[3]["memory_allocated"] == str(3 * GIB) and rows[3]["memory_diff"] == str(GIB)
    (snapshots,) = tmp_path.glob("data_snapshots_*.csv")
    assert len(list(csv.reader(snapshots.open()))) == 10
    document = json.loads(Path(visualizer.export_data(format="json", save_path=base)).read_text())
    assert document["metadata"]["num_results"] == 8 and document["metadata"]["num_snapshots"] == 9
    assert document["results"][0]["memory_before"]["allocated_memory"] == 0


def test_an_unknown_counter_is_not_zero() -> None:
    found = [
        record(0, step, schema_version=4, device_used_bytes=None, device_total_bytes=None)
        for step in range(30)
    ]
    svg = MemoryVisualizer(found).plot_memory_timeline().to_svg()
    assert "device used" not in svg and "hidden" not in svg and "capacity" not in svg
    assert START > 0


def test_the_program_plots(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from stormlog.entrypoint import main

    source, target = tmp_path / "events.json", tmp_path / "out.svg"
    source.write_text(json.dumps(events()))
    arguments = [
        "plot",
        str(source),
        "-o",
        str(target),
        "--kind",
        "ranks",
        "--rank",
        "0,2",
        "--from",
        "5",
        "--to",
        "20s",
    ]
    assert main(arguments) == 0
    assert capfd.readouterr().out == f"{target}\n"
    svg = target.read_text()
    assert "rank 0" in svg and "rank 2" in svg and "rank 1 " not in svg
    for bad, hint in (
        (["-o", "x.pdf"], "use a name that ends in .png, .svg or .html"),
        (["--rank", "9"], "'--rank all' draws every rank"),
        (["--session-id", "nope"], "omit '--session-id'"),
    ):
        assert main(["plot", str(source), *bad]) == 1
        assert hint in capfd.readouterr().err
    assert main(["plot", str(source), "--from", "soon"]) == 1
    assert "'soon' is not a time" in capfd.readouterr().err
    assert main(["plot", str(source), "--from", "900"]) == 1
    assert "the recording lasts from 2026-11-15 07:08:40 UTC" in capfd.readouterr().err


def test_results_of_the_profilers(torch: ModuleType, tmp_path: Path) -> None:
    gpu, host = GPUMemoryProfiler(), CPUMemoryProfiler()

    def grow() -> None:
        torch.STATE["allocated"] += 10 << 20

    gpu.profile_function(grow)
    host.profile_function(len, "")
    for profiler in (gpu, host):
        visualizer = MemoryVisualizer(profiler)
        visualizer.plot_function_comparison(metric="peak_memory", save_path=tmp_path / "calls.svg")
        visualizer.create_dashboard(save_path=tmp_path / "all.html")
    path = MemoryVisualizer(gpu).export_data(save_path=tmp_path / "data")
    (row,) = csv.DictReader(Path(path).read_text().splitlines())
    assert row["memory_diff"] == str(10 << 20)
    assert row["peak_memory"] == str(gpu.results[0].peak_memory_usage())
