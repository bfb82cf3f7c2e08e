"""The pages in a real browser: read, zoomed, toggled, jumped through; nothing leaves them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, Browser, Tab
from stormlog.visualizer import MemoryVisualizer
from waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")

GIB = 1 << 30
START = 1_794_726_520_000_000_000
KINDS = ("timeline", "ranks", "heatmap", "gap", "dashboard")
SCREENSHOTS = Path(__file__).parents[2] / "test-output" / "pages"


def record(rank: int, step: int, **changes: Any) -> dict[str, Any]:
    allocated = (1 + rank) * GIB + step * 1024
    return {
        "schema_version": 3,
        "session_id": f"rank-{rank}",
        "timestamp_ns": START + step * 100_000_000,
        "event_type": "sample",
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": 1,
        "host": "node",
        "job_id": "browser-test",
        "rank": rank,
        "local_rank": rank,
        "world_size": 3,
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
    } | changes


def events(context: str = "CUDA out of memory", ranks: int = 3) -> list[dict[str, Any]]:
    found = [record(rank, step) for rank in range(ranks) for step in range(400)]
    # A critical alert and no error, so that the page shows all memory and not a finding first.
    alert = {"event_type": "warning", "metadata": {"severity": "critical"}}
    found.append(record(0, 300, context=context, **alert))
    found.append(record(0, 100, event_type="warning", context="High fragmentation: 40.0%"))
    return sorted(found, key=lambda event: event["timestamp_ns"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    tabs: list[Tab] = []

    def page(kind: str, found: list[dict[str, Any]], **options: Any) -> Tab:
        path = tmp_path / f"{kind}.html"
        MemoryVisualizer().plot_memory_timeline(found, kind=kind, save_path=path, **options)
        tab = browser.open(path)
        tab.wait_for("document.querySelector('#app').dataset.ready === '1'")
        tabs.append(tab)
        return tab

    yield page
    for tab in tabs:
        tab.close()


def span(tab: Tab) -> tuple[float, float]:
    # Two frames: events may ask for the next one while this one is drawn.
    tab.value("new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))")
    tab.wait_for("document.querySelector('#app').dataset.idle === '1'")
    view = tab.value("({...document.querySelector('#app').dataset})")
    return float(view["from"]), float(view["to"])


def pixels(condition: str, top: str, height: str) -> str:
    """An expression that counts the pixels of the first plot with such red, green and blue."""
    return (
        "(() => { const c = document.querySelector('canvas.plot'); const g2 = c.getContext('2d');"
        f" const d = g2.getImageData(0, {top}, c.width, Math.round({height})).data; let n = 0;"
        " for (let i = 0; i < d.length; i += 4) { const [r, g, b] = d.subarray(i, i + 3);"
        f" if (d[i + 3] > 200 && {condition}) n++; }} return n; }})()"
    )


def series(kind: str) -> list[tuple[str, int, int]]:
    """What a page of `events` shows: names, first values, and growth from sample to sample."""
    if kind == "timeline":
        return [("allocated", GIB, 1024), ("device used", 3 * GIB, 1024), ("hidden", GIB, 0)]
    if kind == "gap":
        return [(f"rank {rank}", GIB, 0) for rank in range(3)]
    return [(f"rank {rank}", (3 + rank) * GIB, 1024) for rank in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_works_and_asks_for_nothing(open_page: Any, kind: str) -> None:
    tab = open_page(kind, events(ranks=1 if kind == "timeline" else 3))
    tab.screenshot(SCREENSHOTS / f"{kind}.png")
    plot = tab.box("canvas.plot")
    middle = plot["y"] + plot["height"] / 2
    whole = span(tab)

    # Hover: the exact values of the sample under the mouse.
    tab.mouse("mouseMoved", plot["x"] + plot["width"] / 2, middle)
    tab.wait_for("!document.querySelector('#tip').hidden")
    tip = tab.value("document.querySelector('#tip').innerText")
    seconds = float(tip.split(" s ")[0])
    values = dict(re.findall(r"^(.+)\t.+\t([\d,]+) B$", tip, re.MULTILINE))
    for name, first, growth in series(kind):
        read = int(values[name].replace(",", ""))
        # The nearest sample, or of a heatmap one of the same cell.
        assert abs(read - first - seconds * 10 * growth) <= 2 * growth, (name, tip)

    # A series is hidden and shown again.
    buttons = "[...document.querySelectorAll('.legend button')]"
    if kind != "heatmap":
        name = series(kind)[0][0]
        # The name may be followed by the peak in parentheses.
        named = f"b.innerText.split(' (')[0] === '{name}'"
        hide = f"{buttons}.filter((b) => {named}).forEach((b) => b.click())"
        tab.value(hide)
        tab.mouse("mouseMoved", plot["x"] + plot["width"] / 2 + 3, middle)
        tab.wait_for(f"!document.querySelector('#tip').innerText.includes('{name}\\t')")
        tab.value(hide)
        tab.mouse("mouseMoved", plot["x"] + plot["width"] / 2, middle)
        tab.wait_for(f"document.querySelector('#tip').innerText.includes('{name}\\t')")

    # Zoom by dragging, by the wheel and by keys; back to everything.
    tab.drag((plot["x"] + 300, middle), (plot["x"] + 600, middle))
    zoomed = span(tab)
    assert zoomed[0] > whole[0] and zoomed[1] < whole[1]
    tab.mouse("mouseWheel", plot["x"] + 450, middle, deltaX=0, deltaY=-240)
    closer = span(tab)
    assert closer[1] - closer[0] < (zoomed[1] - zoomed[0]) * 0.8
    tab.drag((plot["x"] + 600, middle), (plot["x"] + 400, middle), modifiers=8)
    panned = span(tab)
    assert panned[0] > closer[0] and panned[1] - panned[0] == pytest.approx(closer[1] - closer[0])
    tab.screenshot(SCREENSHOTS / f"{kind}-zoomed.png")
    tab.key("0", "0")
    assert span(tab) == whole
    tab.key("+", "+")
    assert span(tab)[0] > whole[0]
    tab.click("#reset")
    assert span(tab) == whole

    # The brush below the plot.
    overview = tab.box("canvas.overview")
    row = overview["y"] + overview["height"] / 2
    tab.drag((overview["x"] + 400, row), (overview["x"] + 700, row))
    brushed = span(tab)
    assert brushed[0] > whole[0] and brushed[1] < whole[1]
    tab.click("#reset")

    # Jump to what happened.
    tab.click(".marks button")
    jumped = span(tab)
    assert jumped[1] - jumped[0] < whole[1] / 2
    tab.click("#theme")
    assert tab.value("document.documentElement.dataset.theme") == "dark"
    tab.screenshot(SCREENSHOTS / f"{kind}-dark.png")

    assert tab.complaints() == []
    others = [url for url in tab.requests() if not url.startswith("file:")]
    assert others == []
    assert len([url for url in tab.requests() if url.startswith("file:")]) == 1


def test_hovering_reads_the_sample_itself(open_page: Any) -> None:
    tab = open_page("timeline", events(ranks=1))
    plot = tab.box("canvas.plot")
    tab.value("document.querySelector('canvas.plot').focus()")
    tab.mouse("mouseMoved", plot["x"] + 66, plot["y"] + plot["height"] / 2)
    tab.wait_for("!document.querySelector('#tip').hidden")
    tip = tab.value("document.querySelector('#tip').innerText")
    # The first sample: 1, 2 and 3 GiB, to the byte.
    for expected in (f"{GIB:,} B", f"{2 * GIB:,} B", f"{3 * GIB:,} B", f"{80 * GIB:,} B"):
        assert expected in tip
    assert "2026-11-15 07:08:40" in tip
    # Sample by sample from the keyboard.
    tab.key("ArrowRight", modifiers=8)
    readout = tab.value("document.querySelector('#readout').innerText")
    assert f"{GIB + 1024:,} B" in readout


def test_series_can_be_hidden(open_page: Any) -> None:
    tab = open_page("timeline", events(ranks=1))
    green = pixels("g > r + 25 && g > b + 15", "0", "c.height")
    before = tab.value(green)
    assert before > 500
    button = "[...document.querySelectorAll('.legend button')].find((b) => b.innerText.includes('device used'))"
    tab.value(f"{button}.click()")
    tab.wait_for(f"{green} < 20")
    assert tab.value(f"{button}.getAttribute('aria-pressed')") == "false"
    tip = tab.box("canvas.plot")
    tab.mouse("mouseMoved", tip["x"] + 300, tip["y"] + 150)
    tab.wait_for("!document.querySelector('#tip').hidden")
    assert "device used" not in tab.value("document.querySelector('#tip').innerText")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_artifact_stays_text(open_page: Any, kind: str) -> None:
    attack = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    found = events(attack)
    for event in found:
        event["job_id"] = attack
        event["host"] = attack
    tab = open_page(kind, found, title=attack)
    assert tab.value("document.querySelector('h1').textContent") == attack
    assert tab.value("document.title") == attack
    assert tab.value("document.querySelectorAll('img, iframe, object, embed, link').length") == 0
    assert attack in tab.value("document.querySelector('.marks').textContent")
    assert tab.complaints() == []
    assert all(url.startswith("file:") for url in tab.requests())
    tab.screenshot(SCREENSHOTS / f"{kind}-hostile.png")


def test_a_hundred_thousand_samples_zoom_to_single_ones(open_page: Any) -> None:
    found = [record(0, step) for step in range(100_000)]
    found[70_000]["allocator_allocated_bytes"] = 70 * GIB
    tab = open_page("timeline", found)
    # The one peak is visible among all samples: something blue in the upper half.
    blue = pixels("b > r + 40 && b > g + 20", "24", "c.height / 2")
    tab.wait_for("document.querySelector('#app').dataset.idle === '1'")
    assert tab.value(blue) > 5
    plot = tab.box("canvas.plot")
    at = plot["x"] + 66 + (plot["width"] - 66 - 14) * 0.7
    for _ in range(12):
        tab.mouse("mouseWheel", at, plot["y"] + 150, deltaX=0, deltaY=-240)
    start, end = span(tab)
    assert end - start < 240e9
    assert start < 7_000e9 < end
    tab.screenshot(SCREENSHOTS / "timeline-100000-zoomed.png")
    assert tab.value(blue) > 5


def test_printing_shows_the_page_in_light(open_page: Any) -> None:
    tab = open_page("dashboard", events(), theme="dark")
    tab.value("dispatchEvent(new Event('beforeprint'))")
    assert tab.value("document.documentElement.dataset.theme") == "light"
    tab.value("dispatchEvent(new Event('afterprint'))")
    assert tab.value("document.documentElement.dataset.theme") == "dark"
    assert len(tab.command("Page.printToPDF")["data"]) > 10_000


def test_the_policy_forbids_what_the_page_does_not_do(open_page: Any) -> None:
    tab = open_page("timeline", events(ranks=1))
    answer = tab.value("fetch('https://example.com/').then(() => 'sent', () => 'refused')")
    assert answer == "refused"
    assert any("Content Security Policy" in text for text in tab.complaints())
    assert all(url.startswith("file:") for url in tab.requests())


FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def open_run(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """The page that `stormlog plot` makes of a fixture."""
    tabs: list[Tab] = []

    def page(name: str) -> Tab:
        path = tmp_path / "page.html"
        command = [sys.executable, "-m", "stormlog", "plot", str(FIXTURES / name), "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
        tab = browser.open(path)
        tab.wait_for("document.querySelector('#app').dataset.ready === '1'")
        tabs.append(tab)
        return tab

    yield page
    for tab in tabs:
        tab.close()


def test_what_uses_a_device_is_a_table(open_run: Any) -> None:
    tab = open_run("runs/h200_ledger")
    tab.screenshot(SCREENSHOTS / "ledger.png")
    rows = tab.value("[...document.querySelectorAll('.ledger tr')].map((row) => row.innerText)")
    cells = [tuple(part.strip() for part in row.split("\t")[:2]) for row in rows]
    # The fixture's users with the most bytes first, then what no user explains.
    assert cells == [
        ("1.97 GiB", "process 5151 (python serve.py --model <b>)"),
        ("700 MiB", "ctypes, called at train.py:31"),
        ("608 MiB", "PyTorch's pool"),
        ("530 MiB", "CUDA context of this process"),
        ("100 MiB", "libcublas.so.13"),
        ("36.0 MiB", "PyTorch's private pool (CUDA graphs)"),
        ("28.0 MiB", "libcudnn_graph.so.9"),
        ("198 MiB", "not explained (4.7 %)"),
    ]
    shares = tab.value("[...document.querySelectorAll('.ledger meter')].map((one) => one.value)")
    assert shares[0] == pytest.approx(2018 / 4218) and sum(shares) == pytest.approx(1.0)
    headings = tab.value("[...document.querySelectorAll('h2')].map((one) => one.innerText)")
    assert "What uses GPU 0 (4.12 GiB at 2026-11-16 16:20:05 UTC)" in headings
    assert tab.complaints() == []


def test_a_flame_graph_is_zoomed_and_searched(open_run: Any) -> None:
    tab = open_run("causes/leak_to_oom")
    tab.value("document.querySelector('.held').scrollIntoView()")
    tab.screenshot(SCREENSHOTS / "held.png")
    graph = "document.querySelector('.held')"
    boxes = f"[...{graph}.querySelectorAll('g')]"
    shown = f"{boxes}.filter((one) => one.getAttribute('display') !== 'none')"
    wide = f"{boxes}.filter((one) => one.querySelector('rect').getAttribute('width') === '1000')"
    words = f"{graph}.querySelector('.words').innerText"
    all_of_them = tab.value(f"{shown}.length")
    assert tab.value(f"{graph}.querySelector('.reset').disabled")

    # A box is described under the pointer, and fills the width when it is clicked.
    name = tab.value(
        f"(() => {{ const box = {shown}.filter((one) => one.dataset.name.startsWith('net.py')).at(-1);"
        " box.id = 'chosen'; return box.dataset.name; })()"
    )
    box = tab.box("#chosen rect")
    tab.mouse("mouseMoved", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for(f"{words}.startsWith({name!r})")
    tab.click("#chosen rect")
    assert tab.value(f"{graph}.dataset.zoom") == name
    assert tab.value("document.querySelector('#chosen rect').getAttribute('width')") == "1000"
    level = int(tab.value("document.querySelector('#chosen').getAttribute('aria-level')"))
    # It and the calls above it.
    assert tab.value(f"{wide}.length") >= level
    assert tab.value(f"{graph}.querySelectorAll('.above').length") == level - 1
    assert tab.value(f"{shown}.length") < all_of_them
    tab.screenshot(SCREENSHOTS / "held-zoomed.png")
    plots = span(tab)

    # By keys: up, zoom there, everything again. The plots above do not move.
    tab.key("ArrowUp")
    assert tab.value("document.activeElement.getAttribute('aria-level')") == str(level - 1)
    tab.key("Enter", "\r")
    assert tab.value(f"{graph}.querySelectorAll('.above').length") == level - 2
    tab.key("Home")
    assert tab.value("document.activeElement.getAttribute('aria-level')") == "1"
    tab.key("Escape")
    assert tab.value(f"{shown}.length") == all_of_them
    assert tab.value(f"{boxes}.filter((one) => one.tabIndex === 0).length") == 1
    assert span(tab) == plots

    # A search counts each byte once; Enter goes from match to match.
    tab.value(f"{graph}.querySelector('input').focus()")
    for letter in "net":
        tab.key(letter, letter)
    tab.wait_for(f"{words}.includes('match')")
    found = re.search(r"\(([\d.]+) %\)", tab.value(words))
    assert found is not None and 0 < float(found[1]) <= 100
    assert tab.value(f"{graph}.querySelectorAll('.match').length") >= 2
    tab.screenshot(SCREENSHOTS / "held-search.png")
    tab.key("Enter", "\r")
    assert "net.py" in tab.value("document.activeElement.dataset.name")
    tab.value(f"{graph}.querySelector('input').focus()")
    tab.key("Escape")
    assert tab.value(f"{graph}.querySelectorAll('.match').length") == 0

    # The button.
    tab.click("#chosen rect")
    tab.click(".held .reset")
    assert tab.value(f"{shown}.length") == all_of_them
    assert tab.complaints() == []
