"""The interface in a real terminal: opened, moved through, filtered, decided, exported, left."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terminal import TMUX, Terminal
from test_pages_in_browser import GIB, record
from waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.skipif(TMUX is None, reason="needs tmux")

COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-7]|9[0-7]|4[0-7]|10[0-7])m")


@pytest.fixture
def terminal() -> Iterator[Any]:
    opened: list[Terminal] = []

    def start(*arguments: Any, **options: Any) -> Terminal:
        opened.append(Terminal(*arguments, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def phase(rank: int, action: str, step: int, ranks: int) -> dict[str, Any]:
    """The event that enters or leaves a phase."""
    scope = {
        "action": action,
        "name": "train",
        "path": ["train"],
        "depth": 1,
        "scope_id": f"rank-{rank}:1",
        "parent_scope_id": None,
        "thread_id": 1,
        "thread_name": "MainThread",
        "sequence": 1 if action == "enter" else 2,
    }
    return record(
        rank, step, world_size=ranks, event_type=f"phase_{action}", metadata={"phase_scope": scope}
    )


def write_sink(folder: Path, ranks: int = 4, steps: int = 300, leak: bool = True) -> Path:
    """A sink of several ranks; rank 1 leaks and ends with an error."""
    sink = folder / "sink"
    sink.mkdir(parents=True)
    sessions, segments = [], []
    for rank in range(ranks):
        events = []
        for step in range(steps):
            event = record(rank, step, world_size=ranks)
            for key in (
                "allocator_allocated_bytes",
                "allocator_reserved_bytes",
                "device_used_bytes",
            ):
                event[key] += (step % 4) * (GIB // 8)
                if rank == 1 and leak:
                    event[key] += max(0, step - 150) * (GIB // 16)
            events.append(event)
        events.insert(10, phase(rank, "enter", 10, ranks))
        events.insert(200, phase(rank, "exit", 199, ranks))
        if rank == 1 and leak:
            events.append(
                record(
                    rank,
                    steps,
                    world_size=ranks,
                    event_type="error",
                    context="CUDA out of memory",
                    metadata={"oom_reason": "torch.cuda.OutOfMemoryError"},
                )
            )
        name = f"segment-{rank + 1:06d}.jsonl"
        text = "".join(json.dumps(event, sort_keys=True) + "\n" for event in events)
        (sink / name).write_text(text)
        segments.append(
            {
                "filename": name,
                "event_count": len(events),
                "size_bytes": len(text),
                "closed": True,
                "session_id": f"rank-{rank}",
            }
        )
        sessions.append(
            {
                "session_id": f"rank-{rank}",
                "status": "completed",
                "started_at_ns": events[0]["timestamp_ns"],
                "ended_at_ns": events[-1]["timestamp_ns"],
                "host": "node",
                "pid": 1,
                "job_id": "browser-test",
                "rank": rank,
                "local_rank": rank,
                "world_size": ranks,
                "source": "stormlog.tracker",
            }
        )
    manifest = {
        "schema_version": 2,
        "format": "stormlog.append_only_telemetry_sink",
        "sessions": sessions,
        "segments": segments,
    }
    (sink / "manifest.json").write_text(json.dumps(manifest, indent=2))
    return sink


def decided(sink: Path) -> list[str]:
    """The states of the closed issues."""
    issues = json.loads((sink / "issues.json").read_text())["issues"]
    return [entry["state"] for entry in issues.values() if entry["state"] != "open"]


def test_a_walk_through(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path)
    write_sink(tmp_path / "elsewhere", leak=False).rename(tmp_path / "other")
    shown = terminal(tmp_path, 120, 40, "tui", "sink")
    shown.wait_for("1 Overview", "sessions 4", "OUT OF MEMORY")

    # The tabs.
    shown.keys("6")
    shown.wait_for("Sessions (4 of 4)")
    shown.keys("/")
    shown.text("rank 2")
    shown.wait_for("Sessions (1 of 4)", "with 'rank 2'")
    shown.keys("Escape", "4")
    shown.wait_for("Run 1 of 1: browser-test, ranks all", "Findings")

    # Ranks are filtered.
    shown.keys("f")
    shown.text("0,2-3")
    shown.keys("Enter")
    screen = shown.wait_for("ranks 0,2-3")
    assert "\n│1     node" not in screen
    shown.keys("f")
    shown.text("all")
    shown.keys("Enter")
    shown.wait_for("ranks all")

    # Phases, and another artifact beside this one.
    shown.keys("v")
    shown.wait_for("Phases (1)", "train")
    shown.keys("c")
    shown.text("other")
    shown.keys("Enter")
    shown.wait_for("Compared with other", "base  other", "still there")
    shown.keys("Escape")
    shown.wait_for("Findings", "Evidence")

    # From a finding to where it began, then zoomed, saved as a picture and as a page.
    shown.keys("Enter")
    shown.wait_for("rank 1 device 1", "CUDA out of memory")
    shown.keys("r", "r", "r", "r", "+", "+", "Right")
    shown.wait_for("rank 1 device 1", "device used: ")
    shown.keys("p")
    shown.wait_for("wrote ./visualizations/timeline_")
    shown.keys("0", "w")
    wait_until(lambda: list(tmp_path.glob("visualizations/*.html")))
    (picture,) = tmp_path.glob("visualizations/*.png")
    assert picture.read_bytes().startswith(b"\x89PNG")

    # An issue is resolved and reopened.
    shown.keys("5")
    shown.wait_for("Issues (", "OOM telemetry event", "Out-of-memory risk")
    shown.keys("r")
    shown.wait_for("resolved   problem", "saved in sink/issues.json")
    assert decided(tmp_path / "sink") == ["resolved"]
    shown.keys("i")
    shown.wait_for("ignored    problem")
    assert decided(tmp_path / "sink") == ["ignored"]
    shown.keys("e")
    wait_until(lambda: not decided(tmp_path / "sink"))

    # Live: the sink is followed while it is written, then exported.
    shown.keys("2", "s")
    shown.wait_for("Watching sink sink", "rank 1 device 1")
    with (tmp_path / "sink" / "segment-000004.jsonl").open("a") as segment:
        event = record(
            3, 400, world_size=4, event_type="warning", context="High fragmentation: 55.0%"
        )
        segment.write(json.dumps(event) + "\n")
    shown.wait_for("High fragmentation: 55.0%")
    shown.keys("e")
    shown.wait_for("wrote ./exports/tracker_events_")
    (exported,) = tmp_path.glob("exports/*.json")
    assert any(
        event["context"] == "High fragmentation: 55.0%"
        for event in json.loads(exported.read_text())
    )

    # Another size, help, and out; the terminal is as before.
    shown.resize(80, 24)
    shown.keys("?")
    shown.wait_for("Monitoring shortcuts", "alert thresholds")
    shown.keys("Escape", "q")
    shown.wait_until_left()


def test_the_name_alone_opens_the_interface(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path, ranks=1)
    shown = terminal(tmp_path, 80, 24, NO_COLOR="1")
    shown.wait_for("nothing yet", "Recent runs (1)", "completed")
    assert not COLOUR.search(shown.screen(colours=True))
    shown.keys("o")
    shown.text("si")
    shown.wait_for("sink/")
    shown.keys("Tab", "Enter")
    shown.wait_for("sessions 1", "events   302")
    shown.keys("o")
    shown.text("nowhere")
    shown.keys("Enter")
    shown.wait_for("'nowhere' does not exist")
    shown.keys("o")
    shown.text("s*k")
    shown.keys("Enter")
    shown.wait_for("open     sink", "Device memory in use")
    for key in "123456":
        shown.keys(key)
        shown.wait_for({"2": "g  this machine"}.get(key, "─"))
        assert not COLOUR.search(shown.screen(colours=True))

    # This machine, and a process.
    shown.keys("2", "h")
    shown.wait_for("rank 0 host", "% of")
    shown.keys("p")
    shown.text(str(os.getpid()))
    shown.keys("Enter")
    shown.wait_for(f"Watching process {os.getpid()} and its children", "used, peak")
    shown.keys("g")
    shown.wait_for("Watching this machine's GPUs")
    shown.keys("C-c")
    shown.wait_until_left()


def test_the_mouse(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path)
    shown = terminal(tmp_path, 80, 24, "tui", "sink")
    shown.wait_for("sessions 4", "issues, ")
    shown.click("4 Diagnostics")
    shown.wait_for("Run 1 of 1")
    shown.click("r1 allocator_leak")
    shown.wait_for("memory held between steps has grown")
    shown.click("r1 allocator_leak")
    shown.wait_for("rank 1 device 1", "+ - zoom")
    before = shown.screen()
    # The wheel, with the mouse on the plot.
    shown.text("\x1b[<64;40;10M")
    shown.wait_for("rank 1 device 1")
    wait_until(lambda: "30.0 s│" not in shown.screen() or shown.screen() != before)
    shown.click("6 Sessions")
    shown.wait_for("Sessions (4 of 4)")
    shown.keys("q")
    shown.wait_until_left()


def test_another_process_is_followed(tmp_path: Path, terminal: Any) -> None:
    """A run whose ranks write sinks of their own, the second one later than the first."""
    shown = None
    writers: list[subprocess.Popen[bytes]] = []

    def track(rank: int) -> None:
        options = ["--sink", str(tmp_path / "run"), "--interval", "0.05", "--pid", str(os.getpid())]
        place = [
            "--rank",
            str(rank),
            "--local-rank",
            str(rank),
            "--world-size",
            "2",
            "--job-id",
            "live",
        ]
        command = [sys.executable, "-m", "stormlog", "track", *options, *place]
        writers.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    try:
        track(0)
        wait_until(lambda: list(tmp_path.glob("run/**/segment-*.jsonl")))
        shown = terminal(tmp_path, 80, 24, "tui", "run")
        shown.wait_for("sessions 1")
        # A run in progress is followed without a further key.
        shown.wait_for("Live verdict")
        shown.keys("2")
        shown.wait_for("Watching sink run", "rank 0 host", "used, peak")
        track(1)
        shown.wait_for("rank 0 host", "rank 1 host")
        # Limits that the process is above raise an alert.
        shown.keys("l")
        shown.text("0.00001 99")
        shown.keys("Enter")
        shown.wait_for("thresholds 0.00001 % and 99", "host: memory at")
        shown.keys("c")
        shown.wait_for("wrote ./exports/tracker_events_")
    finally:
        for writer in writers:
            writer.terminate()
            writer.wait(PATIENCE_S)
    (exported,) = tmp_path.glob("exports/*.csv")
    with exported.open(newline="") as rows:
        ranks = {row["rank"] for row in csv.DictReader(rows)}
    assert ranks == {"0", "1"}
    shown.keys("q")
    shown.wait_until_left()


LEAK = """
import time

kept = []
for step in range(100_000):
    kept.append(bytearray(b"x" * (1 << 20)))
    time.sleep(0.04)
"""


def test_a_leak_is_found_while_the_run_goes_on(tmp_path: Path, terminal: Any) -> None:
    (tmp_path / "leak.py").write_text(LEAK)
    command = [sys.executable, "-m", "stormlog", "run", "-q", "--", sys.executable, "leak.py"]
    run = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: list(tmp_path.glob("stormlog-runs/*/**/segment-*")))
        shown = terminal(tmp_path, 110, 32)
        # The run is listed where it was recorded, and one key opens it.
        shown.wait_for("Recent runs (1)", "stormlog-runs/", "running")
        shown.keys("Enter")
        # No key from here on: the curve moves, and the verdict comes.
        first = shown.wait_for("Live verdict")
        wait_until(lambda: shown.screen() != first)
        shown.wait_for("Live verdict", "LEAK  ", "memory full in about")
        assert run.poll() is None
    finally:
        run.terminate()
        run.wait(PATIENCE_S)
    # The end of the run is seen, too.
    wait_until(lambda: "Live" not in shown.screen())
    shown.keys("q")
    shown.wait_until_left()


def test_a_leak_is_printed_while_it_is_watched(tmp_path: Path) -> None:
    (tmp_path / "leak.py").write_text(LEAK)
    program = [sys.executable, "-m", "stormlog"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = subprocess.Popen(
        [*program, "run", "-q", "--dir", "run", "--", sys.executable, "leak.py"],
        cwd=tmp_path,
        **quiet,
    )
    watch = None
    try:
        wait_until(lambda: list(tmp_path.glob("run/**/segment-*")))
        question = ["query", "watch", "run", "--json"]
        watch = subprocess.Popen(
            [*program, *question], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert watch.stdout is not None
        lines = map(json.loads, watch.stdout)
        seen = next(line for line in lines if line["kind"] == "host_leak")
        assert seen["rank"] == 0 and "leaks" in seen["message"], seen
        assert seen["source_path"].startswith("run/"), seen
        assert run.poll() is None
    finally:
        for process in (run, watch):
            if process is not None:
                process.terminate()
                process.wait(PATIENCE_S)


def test_a_pack_is_opened(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path)
    subprocess.run([sys.executable, "-m", "stormlog", "pack", "sink"], cwd=tmp_path, check=True)
    (tmp_path / "sink").rename(tmp_path / "away")
    shown = terminal(tmp_path, 110, 32, "tui", "sink.stormlog")
    shown.wait_for("open     sink.stormlog", "sessions 4", "OUT OF MEMORY")
    shown.keys("5", "r")
    shown.wait_for("is in a pack, which cannot be changed")
    shown.keys("q")
    shown.wait_until_left()


def test_colours_are_the_sixteen(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path, ranks=1)
    shown = terminal(tmp_path, 80, 24, "tui", "sink", TERM="screen-16color")
    shown.wait_for("sessions 1", "Device memory")
    for key in "123456":
        shown.keys(key)
        shown.wait_for("1 Overview")
        screen = shown.screen(colours=True)
        assert COLOUR.search(screen) and "38;5;" not in screen and "38;2;" not in screen


def test_a_terminal_that_answers_nothing(tmp_path: Path) -> None:
    """Not every terminal reports its cursor position or its size."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "stormlog"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    drawn, deadline = b"", time.monotonic() + PATIENCE_S
    # Blanks are jumped over.
    while b"nothing" not in drawn:
        assert time.monotonic() < deadline, drawn
        if select.select([terminal], [], [], 1)[0]:
            drawn += os.read(terminal, 4096)
    os.write(terminal, b"q")
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0


def test_it_is_asked_to_end(tmp_path: Path, terminal: Any) -> None:
    shown = terminal(tmp_path, 80, 24)
    shown.wait_for("nothing open: press o")
    os.kill(shown.program(), signal.SIGTERM)
    shown.wait_until_left()


def test_it_ends_with_its_terminal(tmp_path: Path, terminal: Any) -> None:
    shown = terminal(tmp_path, 80, 24)
    shown.wait_for("nothing open: press o")
    program = Path(f"/proc/{shown.program()}/stat")
    shown.close()

    def has_ended() -> bool:
        # Its shell ends too; in a container without an init its end is not reaped then.
        try:
            state = program.read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state in "ZX"

    wait_until(has_ended)


def test_run_app_shows_the_interface(tmp_path: Path, terminal: Any) -> None:
    write_sink(tmp_path, ranks=1)
    code = "from stormlog.tui import run_app; run_app(['sink']); print('came back')"
    shown = terminal(tmp_path, 80, 24, command=[sys.executable, "-c", code])
    shown.wait_for("sessions 1", "Device memory")
    shown.keys("q")
    shown.wait_for("came back")
    shown.wait_until_left()


def test_run_app_runs_a_command(tmp_path: Path) -> None:
    code = "from stormlog.tui import run_app; run_app(['query', 'sessions', '.', '--json'])"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, [])


def test_run_app_needs_a_terminal(tmp_path: Path) -> None:
    code = "from stormlog.tui import run_app; run_app([])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: the terminal UI needs a terminal\n"
        "hint: 'stormlog show' and 'stormlog analyze' write to files and pipes\n"
    )


def test_without_a_terminal_the_name_alone_helps() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stormlog"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert "Usage: stormlog" in done.stderr
