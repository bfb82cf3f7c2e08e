"""Pages of snapshots of PyTorch's allocator, from Python, from the program, and in a browser."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, Browser
from stormlog.attributed_viz import (
    ATTRIBUTED_HTML_FILENAME,
    render_attributed_html,
    render_attributed_wandb_preview_html,
)
from stormlog.cuda_native_debug import TRACE_HTML_ANNOTATED_FILENAME
from stormlog.errors import StormlogError

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "snapshots" / "h200_train"
PICKLE = FIXTURE / "cuda_allocator_snapshot.pickle"
# The fixture is ours; the program reads pickles of others without running them.
SNAPSHOT = pickle.loads(PICKLE.read_bytes())
INDEX = json.loads((FIXTURE / "cuda_tensor_attribution.json").read_text())
SCREENSHOTS = Path(__file__).parents[2] / "test-output" / "pages"
EVIL = "</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)>"


def stormlog(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormlog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_page_and_the_preview() -> None:
    assert ATTRIBUTED_HTML_FILENAME == TRACE_HTML_ANNOTATED_FILENAME
    page = render_attributed_html(SNAPSHOT, INDEX)
    for text in ("embedding.weight", "[16384, 512]", "float32", "step (train.py:26)", "267 MiB"):
        assert text in page, text
    preview = render_attributed_wandb_preview_html(
        SNAPSHOT, INDEX, max_offenders=2, max_active_rows=3
    )
    assert "<script" not in preview and preview.count("<tr>") == 2 + 2 + 3
    assert len(preview) < len(page)
    other = render_attributed_html(SNAPSHOT, INDEX, device=3)
    assert "cuda:3" in other and "embedding.weight" not in other


def test_old_and_empty_snapshots_have_a_page() -> None:
    block = {"size": 512, "history": [{"addr": 4096, "real_size": 24, "frames": []}]}
    owner = {"storage_ptr_int": 4096, "names": ["old"], "tensors": []}
    index = {"attributed_storage_pointers": [owner]}
    for snapshot in ([{"address": 4096, "blocks": [block]}], {"segments": [{"blocks": [block]}]}):
        assert "old" in render_attributed_html(snapshot, index)
    assert "no history recorded" in render_attributed_html({}, {})


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(ValueError, match="not a snapshot of PyTorch's allocator"):
        render_attributed_html(7, {})
    with pytest.raises(StormlogError, match="not plain data"):
        render_attributed_html({"segments": lambda: 1}, {})
    with pytest.raises(ValueError, match="limits must be >= 0"):
        render_attributed_wandb_preview_html(SNAPSHOT, INDEX, max_offenders=-1)


def test_show_needs_neither_pytorch_nor_a_gpu() -> None:
    result = stormlog("show", PICKLE)
    assert result.returncode == 0, result.stderr
    for text in (
        "300 events",
        "live 267 MiB, reserved 310 MiB",
        "step (train.py:26)",
        "embedding.weight [16384, 512]",
    ):
        assert text in result.stdout, text
    (device,) = json.loads(stormlog("show", "--json", PICKLE).stdout)["devices"]
    assert device["requested_bytes"] == 234_633_728 and device["reserved_bytes"] == 325_058_560
    assert len(device["live"]) == 111 and device["live"][0]["names"] == ["embedding.weight"]


def test_plot_makes_the_same_page(tmp_path: Path) -> None:
    result = stormlog("plot", PICKLE, "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "page.html").read_text() == render_attributed_html(SNAPSHOT, INDEX)
    result = stormlog("plot", PICKLE, "-o", tmp_path / "page.png")
    assert result.returncode == 1 and "hint: use a name that ends in .html" in result.stderr


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_pickle_that_means_harm_does_none(tmp_path: Path) -> None:
    harmful, bent = tmp_path / "harm.pickle", tmp_path / "bent.pickle"
    harmful.write_bytes(pickle.dumps({"segments": [Harm(tmp_path / "ran")]}, 4))
    bent.write_bytes(PICKLE.read_bytes()[:-100])
    stormlog("show", harmful)
    assert not (tmp_path / "ran").exists()
    result = stormlog("show", bent)
    assert result.returncode == 1 and "not a snapshot of PyTorch's allocator" in result.stderr
    assert "hint: " in result.stderr and "panicked" not in result.stderr
    # Names that would move the cursor are shown, not obeyed.
    named = dict(
        INDEX,
        attributed_storage_pointers=[
            dict(INDEX["attributed_storage_pointers"][0], names=["\x1b[2J"])
        ],
    )
    (tmp_path / "s.pickle").write_bytes(PICKLE.read_bytes())
    (tmp_path / "cuda_tensor_attribution.json").write_text(json.dumps(named))
    assert "\x1b" not in stormlog("show", tmp_path / "s.pickle").stdout
    (tmp_path / "cuda_tensor_attribution.json").write_text("{")
    result = stormlog("show", tmp_path / "s.pickle")
    assert result.returncode == 0 and "warning: tensor names are not shown" in result.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def test_the_page_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    largest = max(SNAPSHOT["segments"], key=lambda segment: segment["total_size"])["blocks"][0]
    owner = {"storage_ptr_int": largest["address"], "names": [EVIL], "tensors": []}
    page = tmp_path / "page.html"
    page.write_text(render_attributed_html(SNAPSHOT, {"attributed_storage_pointers": [owner]}))
    tab = browser.open(page)
    tab.wait_for("document.querySelector('#app').dataset.ready === '1'")
    tab.screenshot(SCREENSHOTS / "allocator.png")
    # Hover: what happened at the event under the mouse, with its levels.
    plot = tab.box("canvas.plot")
    tab.mouse("mouseMoved", plot["x"] + plot["width"] * 0.85, plot["y"] + plot["height"] / 2)
    tab.wait_for("!document.querySelector('#tip').hidden")
    tip = tab.value("document.querySelector('#tip').innerText")
    assert "allocated\t" in tip and "MiB" in tip
    # A name is text, in the table and in the map of segments.
    assert tab.value("document.title") == "Memory holders of cuda:0"
    assert EVIL in tab.value("document.querySelector('#live').innerText")
    assert EVIL in tab.value("document.querySelector('#segments rect title').textContent")
    assert tab.value("document.querySelectorAll('img').length") == 0
    # Frames open without a script of ours.
    tab.value("document.querySelector('#live details').open = true")
    assert "(train.py:" in tab.value("document.querySelector('#live details').innerText")
    # Nothing is wider than a phone, light or dark.
    tab.command(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    tab.click("#theme")
    tab.wait_for("document.documentElement.scrollWidth <= 390")
    tab.screenshot(SCREENSHOTS / "allocator-phone.png")
    assert tab.requests() == [page.as_uri()] and tab.complaints() == []
    tab.close()


def test_the_preview_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "preview.html"
    page.write_text(render_attributed_wandb_preview_html(SNAPSHOT, INDEX))
    tab = browser.open(page)
    shown = "[...document.querySelectorAll('.picture')].map((one) => one.offsetHeight > 0)"
    background = "getComputedStyle(document.body).backgroundColor"
    tab.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}]
    )
    assert tab.value(shown) == [True, False] and tab.value(background) == "rgb(255, 255, 255)"
    tab.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert tab.value(shown) == [False, True] and tab.value(background) == "rgb(20, 23, 28)"
    tab.command(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    tab.wait_for("document.documentElement.scrollWidth <= 390")
    tab.screenshot(SCREENSHOTS / "allocator-preview.png")
    assert tab.requests() == [page.as_uri()] and tab.complaints() == []
    tab.close()
