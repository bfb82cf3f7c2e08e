"""No two labels of a page overlap, in a narrow and in a wide window."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from label_overlaps import RECORD, overlaps
from waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")

FIXTURES = Path(__file__).parents[2] / "fixtures"
RUNS = (
    "recordings/outputs_for_metrics",
    "recordings/host_copies",
    "recordings/oom_halves_batch",
    "recordings/fragmentation_oom",
    "recordings/rank_leak_ddp",
    "recordings/shared_clean_gpt",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", ["timeline", "dashboard"])
def test_labels_do_not_overlap(browser: Browser, tmp_path: Path, run: str, kind: str) -> None:
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "stormlog", "plot", str(FIXTURES / run), "--kind", kind]
    subprocess.run([*command, "-o", str(page)], check=True, timeout=PATIENCE_S)
    tab = browser.open("about:blank")
    tab.command("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
    tab.command("Page.navigate", url=page.as_uri())
    tab.wait_for("document.querySelector('#app')?.dataset.ready === '1'")
    for width in (400, 800, 1280):
        assert overlaps(tab, width) == [], width
    # The check sees labels on canvases.
    assert tab.value("document.querySelector('canvas.plot').labels.length") > 4
    assert tab.complaints() == []
    tab.close()
