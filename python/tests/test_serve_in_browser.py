"""`stormlog serve` in a real browser: list, run page, comparison and issues, live."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser import CHROMIUM, Browser, Tab
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")

MIB = 1 << 20
GIB = 1 << 30
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
SCREENSHOTS = Path(__file__).parents[2] / "test-output" / "serve"


def record(session: str, at_ns: int, allocated: int, step: int, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "session_id": session,
        "timestamp_ns": at_ns,
        "event_type": "sample",
        "collector": "stormlog.cuda_tracker",
        "sampling_interval_ms": 100,
        "pid": 1,
        "host": "node",
        "job_id": None,
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "device_id": 0,
        "allocator_allocated_bytes": allocated,
        "allocator_reserved_bytes": allocated + GIB,
        "allocator_active_bytes": None,
        "allocator_inactive_bytes": None,
        "allocator_change_bytes": 0,
        "device_used_bytes": allocated + 2 * GIB,
        "device_free_bytes": None,
        "device_total_bytes": 16 * GIB,
        "context": None,
        "metadata": {"step": step, "step_count": step, "optimizer": 0},
    } | changes


class Growing:
    """A sink that is written while pages look at it."""

    def __init__(self, folder: Path, start_ns: int) -> None:
        # A sink that is open has this process as its recorder, so that it counts as running.
        self._sink = AppendOnlyTelemetrySink(
            TelemetrySinkConfig(root_dir=folder, flush_every_events=1)
        )
        self._start_ns = start_ns
        self._name = folder.name
        self._level = 2 * GIB
        self.steps = 0

    def add(self, steps: int, per_step: int) -> None:
        for _ in range(steps):
            at = self._start_ns + self.steps * 100_000_000
            self._level += per_step
            self._sink.append(record(f"session-{self._name}", at, self._level, self.steps))
            self.steps += 1
        self._sink.flush(force=True)

    def close(self) -> None:
        self._sink.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    start = time.time_ns() - 3_600_000_000_000
    for place, (name, per_step) in enumerate(
        [("clean", 0), ("leaking", 24 * MIB), (HOSTILE.replace("/", ""), 0)]
    ):
        run = Growing(folder / name, start + place * 60_000_000_000)
        run.add(150, per_step)
        run.close()
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[dict[str, str]]:
    command = [
        sys.executable,
        "-m",
        "stormlog",
        "serve",
        str(folder),
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    yield json.loads(line)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def open_page(browser: Browser, server: dict[str, str]) -> Iterator[Any]:
    tabs: list[Tab] = []

    def page(path: str) -> Tab:
        tab = browser.open(f"http://{server['address']}{path}")
        tabs.append(tab)
        return tab

    yield page
    for tab in tabs:
        # Nothing was asked of any other machine, and nothing was refused by the policy.
        hosts = {
            urlsplit(url).netloc
            for url in tab.requests()
            if not url.startswith(("data:", "about:"))
        }
        assert hosts <= {server["address"]}, hosts
        assert not tab.complaints()
        tab.close()


def go_to_run(open_page: Any, name: str) -> Tab:
    tab: Tab = open_page("/")
    tab.wait_for(
        f"[...document.querySelectorAll('.runs a')].some((a) => a.textContent === {name!r})"
    )
    href = tab.value(
        f"[...document.querySelectorAll('.runs a')].find((a) => a.textContent === {name!r}).getAttribute('href')"
    )
    run: Tab = open_page(href)
    run.wait_for("document.querySelector('#app').dataset.ready === '1'")
    return run


def row(tab: Tab, name: str) -> str:
    text: str = tab.value(
        f"([...document.querySelectorAll('.runs tbody tr')].find((r) => r.querySelector('a').textContent === {name!r}) || {{innerText: ''}}).innerText"
    )
    return text


def test_the_list_shows_verdicts_filters_and_searches(open_page: Any) -> None:
    tab = open_page("/")
    # Verdicts are read in the background and appear without a reload.
    tab.wait_for(
        "[...document.querySelectorAll('.runs tbody tr')].filter((r) => r.querySelector('.spark')).length === 3"
    )
    assert "GiB of 16.0 GiB" in row(tab, "clean")
    assert row(tab, "leaking").split()[0] == "problem" and "/step" in row(tab, "leaking")
    # A hostile name is text.
    assert tab.value("document.querySelectorAll('.runs img').length") == 0
    assert HOSTILE.replace("/", "") in tab.value("document.querySelector('.runs').innerText")
    tab.screenshot(SCREENSHOTS / "list.png")
    tab.value(
        "(() => { const q = document.querySelector('input[name=q]'); q.value = 'leaking'; q.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    tab.wait_for("document.querySelectorAll('.runs tbody tr').length === 1")
    assert tab.value("location.search") == "?q=leaking"
    tab.value(
        "(() => { const q = document.querySelector('input[name=q]'); q.value = ''; const s = document.querySelector('select[name=sort]'); s.value = 'verdict'; s.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    tab.wait_for(
        "document.querySelectorAll('.runs tbody tr').length === 3 && document.querySelector('.runs tbody a').textContent === 'leaking'"
    )


def test_a_run_has_its_findings_steps_and_a_zoom_in_its_link(open_page: Any) -> None:
    tab = go_to_run(open_page, "leaking")
    assert tab.value("document.querySelector('#findings .finding h3').innerText").startswith(
        ("problem", "likely")
    )
    assert tab.value("document.querySelectorAll('#steps svg').length") == 2
    tab.screenshot(SCREENSHOTS / "run.png")
    tab.value("document.querySelector('#zoom-in').click()")
    tab.wait_for("location.hash.includes('from=')")
    there = tab.value("location.pathname + location.hash")
    view = tab.value("({...document.querySelector('#app').dataset})")
    again: Tab = open_page(there)
    again.wait_for("document.querySelector('#app').dataset.ready === '1'")
    shown = again.value("({...document.querySelector('#app').dataset})")
    assert abs(float(shown["from"]) - float(view["from"])) < 1e6
    assert abs(float(shown["to"]) - float(view["to"])) < 1e6


def test_a_run_that_grows_moves_its_curve_and_raises_its_finding(
    open_page: Any, folder: Path
) -> None:
    run = Growing(folder / "growing", time.time_ns() - 60_000_000_000)
    run.add(60, 0)
    tab = go_to_run(open_page, "growing")
    assert tab.value("document.querySelectorAll('#findings .finding').length") == 0
    assert tab.value("document.querySelector('#head .state').textContent") == "running"
    before = float(tab.value("document.querySelector('#app').dataset.to"))
    begun = time.monotonic()
    run.add(5, 0)
    tab.wait_for(f"Number(document.querySelector('#app').dataset.to) > {before}")
    took = time.monotonic() - begun
    print(f"the curve moved after {took:.2f} s")
    # Two seconds on a quiet machine.
    assert took < 20
    run.add(120, 32 * MIB)
    tab.wait_for("document.querySelectorAll('#findings .finding').length > 0")
    tab.wait_for("document.querySelector('.verdict.warning, .verdict.critical') !== null")
    assert tab.value("performance.getEntriesByType('navigation').length") == 1
    tab.screenshot(SCREENSHOTS / "growing.png")
    run.close()
    tab.wait_for("document.body.dataset.running === 'false'")


def test_two_runs_are_compared(open_page: Any) -> None:
    tab = open_page("/")
    tab.wait_for("document.querySelectorAll('.runs tbody tr').length >= 3")
    ids = tab.value(
        "['clean', 'leaking'].map((name) => [...document.querySelectorAll('.runs tbody tr')]"
        ".find((r) => r.querySelector('a').textContent === name).dataset.run)"
    )
    for align in ("start", "step"):
        both: Tab = open_page(f"/compare?run={ids[0]}&run={ids[1]}&align={align}")
        both.wait_for("document.querySelector('#app').dataset.ready === '1'")
        text = both.value("document.querySelector('#sections').innerText")
        assert "gates" in text and "peak" in text, text
        assert both.value("document.querySelector('#gates .critical')") is not None
        both.screenshot(SCREENSHOTS / f"compare-{align}.png")


def test_issues_are_decided_with_the_token_only(
    browser: Browser, open_page: Any, server: dict[str, str]
) -> None:
    tab = open_page("/issues")
    tab.wait_for("document.querySelectorAll('.finding').length > 0")
    assert tab.value("document.querySelectorAll('.finding form').length") == 0
    admitted = open_page(f"/?token={server['token']}")
    assert "token" not in admitted.value("location.href")
    tab = open_page("/issues")
    tab.wait_for("document.querySelectorAll('.finding form').length > 0")
    tab.screenshot(SCREENSHOTS / "issues.png")
    issue = tab.value("document.querySelector('.finding').dataset.issue")
    chosen = f"document.querySelector('[data-issue=\"{issue}\"]')"
    tab.value(f"{chosen}.querySelector('input[name=reason]').value = {HOSTILE!r}")
    tab.value(f"{chosen}.querySelector('button[value=resolved]').click()")
    tab.wait_for(f"{chosen} && {chosen}.innerText.includes('resolved')")
    assert HOSTILE in tab.value(f"{chosen}.innerText")
    tab.value(f"{chosen}.querySelector('button[value=open]').click()")
    tab.wait_for(f"Boolean({chosen} && {chosen}.querySelector('button[value=ignored]'))")
    # Without the token the same change is refused.
    request = urllib.request.Request(
        f"http://{server['address']}/issues/decide",
        data=b"folder=0&state=resolved&id=x",
        method="POST",
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    assert refused.value.code == 403


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_and_both_themes(open_page: Any, scheme: str) -> None:
    tab = open_page("/")
    tab.command(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=844,
        deviceScaleFactor=1,
        mobile=True,
    )
    tab.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    tab.wait_for("document.querySelectorAll('.runs tbody tr').length >= 3")
    wide = tab.value("document.documentElement.scrollWidth")
    tab.screenshot(SCREENSHOTS / f"phone-{scheme}.png")
    assert wide <= 390
    background = tab.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
