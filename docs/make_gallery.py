"""Make the pictures of gallery.md from recordings of a real H200.

    python docs/make_gallery.py TRACES [RUN ...]

TRACES is the folder with the h200_*.jsonl.gz recordings, each RUN a folder that `stormlog run` has
written; its picture is called run-NAME.png. With Debian's chromium installed
the picture of the page is taken too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from stormlog.visualizer import MemoryVisualizer

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
RANKS = ("clean_train", "clean_eval_bumps", "leak_graph", "spike")


def four_ranks(traces: Path, folder: Path) -> list[Path]:
    """Four recordings of one GPU each, renamed to ranks of one job."""
    paths = []
    for rank, name in enumerate(RANKS):
        with gzip.open(traces / f"h200_{name}.jsonl.gz", "rt") as lines:
            events = [json.loads(line) for line in lines]
        for event in events:
            event.update(
                rank=rank,
                local_rank=rank,
                world_size=len(RANKS),
                job_id="four recordings",
                # Only clocks of different hosts are corrected.
                host=f"h200-{rank}",
            )
        paths.append(folder / f"events_rank{rank}.json")
        paths[-1].write_text(json.dumps(events))
    return paths


def draw(source: Path | list[Path], name: str, **options: str) -> None:
    """One picture, sharp enough for paper."""
    figure = MemoryVisualizer(source).plot_memory_timeline(**options)  # type: ignore[arg-type]
    figure._width, figure._height, figure._scale = 1000, None, 2.0
    figure.save(PICTURES / f"{name}.png", theme=options.get("theme", "light"))
    print(PICTURES / f"{name}.png")


def photograph(source: Path, name: str, folder: Path) -> None:
    """The page in a browser, the mouse on the plot."""
    sys.path.insert(0, str(DOCS.parent / "python" / "tests"))
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        print("no chromium: the picture of the page stays as it is")
        return
    page = folder / "page.html"
    MemoryVisualizer(source).plot_memory_timeline(save_path=page, kind="dashboard")
    browser = Browser(folder / "profile")
    try:
        tab = browser.open(page)
        tab.wait_for("document.querySelector('#app').dataset.ready === '1'")
        tab.mouse("mouseMoved", 900, 330)
        tab.wait_for("!document.querySelector('#tip').hidden")
        tab.screenshot(PICTURES / f"{name}.png")
        print(PICTURES / f"{name}.png")
    finally:
        browser.close()


def main() -> None:
    """Make all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    arguments = parser.parse_args()
    traces: Path = arguments.traces
    PICTURES.mkdir(exist_ok=True)

    def trace(name: str) -> Path:
        return traces / f"h200_{name}.jsonl.gz"

    for run in arguments.runs:
        picture = PICTURES / f"run-{run.name}.png"
        subprocess.run(["stormlog", "plot", run, "-o", picture, "--scale", "1.5"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw(trace("oom"), "timeline")
        draw(trace("leak_graph"), "timeline-leak", theme="dark")
        draw(trace("hidden_drift"), "gap", kind="gap")
        ranks = four_ranks(traces, folder)
        draw(ranks, "ranks", kind="ranks")
        draw(ranks, "heatmap", kind="heatmap")
        draw(ranks, "dashboard", kind="dashboard")
        photograph(trace("oom"), "page", folder)


if __name__ == "__main__":
    main()
