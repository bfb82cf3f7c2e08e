"""What users have in their scripts, word for word; only the file names are given here."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from fixtures import run
from test_pages_in_browser import record

LOAD = """
from stormlog.telemetry import load_telemetry_events

events = load_telemetry_events("telemetry.json", permissive_legacy=True)
print(len(events), events[0].event_type, events[0].allocator_allocated_bytes)
"""

VALIDATE = """
from gpumemprof.telemetry import (
    load_telemetry_events,
    telemetry_event_to_dict,
    validate_telemetry_record,
)

events = load_telemetry_events("telemetry.json", events_key="events")
for event in events:
    validate_telemetry_record(telemetry_event_to_dict(event))
checked = len(events)
"""

CONVERT = """
from stormlog import telemetry_event_from_record, telemetry_event_to_dict

legacy = {
    "timestamp": 1709480430.123,
    "memory_allocated": 2147483648,
    "memory_reserved": 2415919104,
    "device": "cuda:0",
    "context": "training",
}
event = telemetry_event_from_record(
    legacy,
    default_collector="legacy.unknown",
    default_sampling_interval_ms=0,
)
record = telemetry_event_to_dict(event)
"""

POST = """
import json
import urllib.request

from stormlog.telemetry import load_telemetry_events, telemetry_event_to_dict

events = load_telemetry_events("telemetry.json")
payload = json.dumps([telemetry_event_to_dict(event) for event in events]).encode()
request = urllib.request.Request(
    url, data=payload, headers={"Content-Type": "application/json"}, method="POST"
)
with urllib.request.urlopen(request) as response:
    status = response.status
"""


TIMELINE = """
from stormlog import GPUMemoryProfiler, MemoryVisualizer

profiler = GPUMemoryProfiler()
for _ in range(5):
    profiler.profile_function(train_step)

visualizer = MemoryVisualizer(profiler)
visualizer.plot_memory_timeline(interactive=False, save_path="timeline.png")
visualizer.plot_memory_timeline(interactive=True, save_path="timeline.html")
"""

CROSS_RANK = """
from stormlog import MemoryVisualizer
from stormlog.telemetry import load_telemetry_events

events = []
for rank in range(4):
    events.extend(load_telemetry_events(f"artifacts/events_rank{rank}.json"))

visualizer = MemoryVisualizer()
figure = visualizer.plot_cross_rank_timeline(events=events, save_path="cross_rank_timeline.png")
"""

TRACKED = """
import time

from stormlog import CPUMemoryTracker, MemoryVisualizer

with CPUMemoryTracker(sampling_interval=0.01) as tracker:
    ballast = bytearray(32 << 20)
    time.sleep(0.2)

MemoryVisualizer(tracker).plot_memory_timeline(save_path="tracked.html")
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = json.loads(run("reference_csv/events.json").read_text())
    Path("telemetry.json").write_text(json.dumps({"events": records}))


def ran(script: str, **names: Any) -> dict[str, Any]:
    exec(script, names)
    return names


def test_load(capsys: pytest.CaptureFixture[str]) -> None:
    events = ran(LOAD)["events"]
    assert capsys.readouterr().out == f"{len(events)} start 0\n"


def test_validate_each_event() -> None:
    assert ran(VALIDATE)["checked"] > 15


def test_convert_a_legacy_record() -> None:
    record = ran(CONVERT)["record"]
    assert record["timestamp_ns"] == 1709480430122999808
    assert record["session_id"] == "legacy-0fa05043-0eda-5a0a-ae4b-2649853d0811"
    assert record["collector"] == "stormlog.cuda_tracker"
    assert (record["device_id"], record["pid"], record["host"]) == (0, -1, "unknown")


def test_post_the_events_to_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy that the machine has for the world cannot reach this server.
    monkeypatch.setenv("no_proxy", "*")
    received: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        # A request that fails must not keep the tests from ending.
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        names = ran(POST, url=f"http://127.0.0.1:{server.server_port}/")
        thread.join()
    assert names["status"] == 204
    assert received == [json.loads(Path("telemetry.json").read_text())["events"]]


def test_a_profiler_timeline_as_picture_and_page(torch: Any) -> None:
    def train_step() -> None:
        torch.STATE["allocated"] += 10 << 20
        torch.STATE["peak"] = torch.STATE["allocated"]

    ran(TIMELINE, train_step=train_step)
    assert Path("timeline.png").read_bytes().startswith(b"\x89PNG")
    page = Path("timeline.html").read_text()
    assert "Content-Security-Policy" in page and "train_step" in page


def test_four_ranks_on_one_plot() -> None:
    Path("artifacts").mkdir()
    for rank in range(4):
        records = [record(rank, step, world_size=4) for step in range(60)]
        for step in range(30 + rank, 60):
            records[step]["device_used_bytes"] += (step - 29 - rank) << 30
        Path(f"artifacts/events_rank{rank}.json").write_text(json.dumps(records))
    figure = ran(CROSS_RANK)["figure"]
    assert Path("cross_rank_timeline.png").read_bytes().startswith(b"\x89PNG")
    assert figure.title == "Cross-Rank Memory Timeline (browser-test) - top suspect rank 0"
    drawn = figure.to_svg()
    assert all(f"rank {rank}" in drawn for rank in range(4))


def test_a_tracker_is_drawn() -> None:
    names = ran(TRACKED)
    assert "Content-Security-Policy" in Path("tracked.html").read_text()
    assert {"start", "stop"} <= {event.event_type for event in names["tracker"].get_events()}
