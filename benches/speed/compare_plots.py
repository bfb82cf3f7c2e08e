"""Our plots against stormlog 0.3.9's matplotlib and plotly exports of the same events.

    python benches/speed/compare_plots.py --ours PYTHON --reference PYTHON [--events 100000]

PYTHON is an interpreter with the package in question installed; stormlog 0.3.9's also needs
matplotlib, plotly and kaleido, but no torch. Each export runs in a process of its own, all of
them in one run, because machines differ: the ratios are what counts. With Debian's chromium
the pages are opened too, for the time to the first paint.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB = 1 << 30

# What stormlog 0.3.9 asks of torch while it is imported; nothing of it is used by plots.
STAND_IN_FOR_TORCH = """
import importlib.machinery, sys, types
from unittest.mock import MagicMock
class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        setattr(self, name, MagicMock(name=name))
        return getattr(self, name)
for name in ('torch', 'torch.nn', 'torch.cuda', 'torch.utils', 'torch.utils.data'):
    module = Module(name)
    module.__path__, module.__spec__ = [], importlib.machinery.ModuleSpec(name, None)
    sys.modules[name] = module
sys.modules['torch'].nn, sys.modules['torch'].cuda = sys.modules['torch.nn'], sys.modules['torch.cuda']
sys.modules['torch.nn'].Module = sys.modules['torch'].Tensor = type('Class', (), {})
sys.modules['torch'].device = type('device', (), {})
import matplotlib
matplotlib.use('Agg')
"""

# The data are made before the clock starts; what is timed is the call that users make.
EXPORT = """
import json, resource, sys, time
from dataclasses import dataclass
import stormlog.visualizer
from stormlog.visualizer import MemoryVisualizer
kind, path, source = sys.argv[1:]
if kind == 'ranks':
    from stormlog.telemetry import load_telemetry_events
    events = load_telemetry_events(source)
    call = lambda: MemoryVisualizer().plot_cross_rank_timeline(events=events, save_path=path)
else:
    @dataclass
    class Snapshot:
        timestamp: float
        allocated_memory: int
        reserved_memory: int
        operation: str
    snapshots = [
        Snapshot(e['timestamp_ns'] / 1e9, e['allocator_allocated_bytes'], e['allocator_reserved_bytes'], 'step')
        for e in json.load(open(source))
    ]
    interactive = kind == 'interactive'
    call = lambda: MemoryVisualizer().plot_memory_timeline(snapshots=snapshots, save_path=path, interactive=interactive)
before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
call()
wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + children.ru_utime + children.ru_stime
print(json.dumps({'wall_s': wall, 'cpu_s': cpu}))
"""

EXPORTS = (
    ("timeline as PNG, static (matplotlib)", "static", "png"),
    ("timeline as PNG (plotly)", "interactive", "png"),
    ("timeline as page (plotly)", "interactive", "html"),
    ("cross-rank PNG (matplotlib)", "ranks", "png"),
)


def write_events(path: Path, count: int) -> None:
    """Samples of four ranks that grow a little and breathe."""
    events = []
    for place in range(count):
        rank, step = place % 4, place // 4
        allocated = 10 * GIB + (step % 97) * (GIB // 100) + step * 4096
        events.append(
            {
                "schema_version": 3,
                "session_id": "bench",
                "timestamp_ns": 1_794_726_520_000_000_000 + step * 20_000_000 + rank,
                "event_type": "sample",
                "collector": "stormlog.cuda_tracker",
                "sampling_interval_ms": 20,
                "pid": 1,
                "host": "bench",
                "job_id": "bench",
                "rank": rank,
                "local_rank": rank,
                "world_size": 4,
                "device_id": rank,
                "allocator_allocated_bytes": allocated,
                "allocator_reserved_bytes": allocated + GIB,
                "allocator_active_bytes": None,
                "allocator_inactive_bytes": None,
                "allocator_change_bytes": 0,
                "device_used_bytes": allocated + 2 * GIB,
                "device_free_bytes": None,
                "device_total_bytes": 80 * GIB,
                "context": None,
                "metadata": {},
            }
        )
    path.write_text(json.dumps(events))


def export(python: str, prelude: str, kind: str, target: Path, source: Path) -> dict[str, float]:
    """Run one export; the numbers that it prints, and the size of its file."""
    arguments = [python, "-c", prelude + EXPORT, kind, str(target), str(source)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1]}  # type: ignore[dict-item]
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers | {"bytes": target.stat().st_size}


# A million samples are kept as columns; what is timed begins with loaded events.
MILLION = """
import json, resource, sys, time
from stormlog.telemetry import load_telemetry_events
from stormlog.visualizer import MemoryVisualizer
source, folder = sys.argv[1:]
events = load_telemetry_events(source)
found = {'samples': len(events)}
for suffix in ('png', 'svg', 'html'):
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    MemoryVisualizer(events).plot_memory_timeline(save_path=f'{folder}/million.{suffix}')
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found[suffix] = {'cpu_s': cpu, 'wall_s': time.perf_counter() - start}
print(json.dumps(found))
"""


def a_million(python: str, folder: Path) -> Path:
    """Print what plots of a million samples of one rank cost; the page that was made."""
    from make_sink import write_sink

    write_sink(folder / "million", 1_000_000, 1)
    arguments = [python, "-c", MILLION, str(folder / "million"), str(folder)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=True)
    found = json.loads(done.stdout)
    print(f"\nours, {found.pop('samples')} samples of one rank")
    for suffix, numbers in found.items():
        size = (folder / f"million.{suffix}").stat().st_size
        print(
            f"  {suffix:5} cpu_s {numbers['cpu_s']:.3f}, wall_s {numbers['wall_s']:.3f}, bytes {size}"
        )
    return folder / "million.html"


def first_paint(pages: dict[str, Path], folder: Path) -> dict[str, float]:
    """Milliseconds from navigation to the first paint with content, by page."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "tests"))
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        return {}
    times: dict[str, float] = {}
    browser = Browser(folder / "profile")
    try:
        for name, page in pages.items():
            tab = browser.open(page)
            entry = "performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint')"
            tab.wait_for(f"Boolean({entry})", 60)
            drawn = "document.querySelectorAll('canvas, svg.main-svg').length > 0"
            tab.wait_for(drawn, 60)
            times[name] = tab.value(f"{entry}.startTime")
            times[f"{name}, plot drawn"] = tab.value(
                "(performance.getEntriesByName('stormlog-drawn')[0] || performance.getEntriesByType('navigation')[0]"
                " && {startTime: performance.getEntriesByType('navigation')[0].loadEventEnd}).startTime"
            )
            tab.close()
    finally:
        browser.close()
    return times


def main() -> None:
    """Print a table of both, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "events.json"
        write_events(source, options.events)
        pages: dict[str, Path] = {}
        print(f"{options.events} events; CPU and wall seconds of the call, bytes of the file")
        for title, kind, suffix in EXPORTS:
            rows = {}
            for who, python, prelude in (
                ("ours", options.ours, ""),
                ("reference", options.reference, STAND_IN_FOR_TORCH),
            ):
                target = folder / f"{who}-{kind}.{suffix}"
                rows[who] = export(python, prelude, kind, target, source)
                if suffix == "html" and target.exists():
                    pages[who] = target
            print(f"\n{title}")
            for who, numbers in rows.items():
                print(
                    f"  {who:10} "
                    + ", ".join(
                        f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in numbers.items()
                    )
                )
            if all("cpu_s" in numbers for numbers in rows.values()):
                ours, theirs = rows["ours"], rows["reference"]
                ratios = {k: theirs[k] / max(ours[k], 1e-9) for k in ("cpu_s", "wall_s", "bytes")}
                print(
                    "  reference / ours: " + ", ".join(f"{k} {v:.1f}x" for k, v in ratios.items())
                )
        pages["ours, a million samples"] = a_million(options.ours, folder)
        print("\npages in chromium, milliseconds")
        for who, milliseconds in first_paint(pages, folder).items():
            print(f"  {who:28} {milliseconds:.0f}")
        print(
            f"\nmost memory of any process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024} MiB; {time.strftime('%Y-%m-%d')}"
        )


if __name__ == "__main__":
    main()
