"""The append-only sink as programs use it: threads, forks, ends without a close."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples import record, summary
from stormlog.telemetry import load_telemetry_events, load_telemetry_sessions
from stormlog.telemetry_rollups import build_telemetry_rollups, read_telemetry_rollups
from stormlog.telemetry_sink import (
    AppendOnlyTelemetrySink,
    TelemetrySinkConfig,
    read_telemetry_sink_manifest,
)
from waiting import PATIENCE_S, wait_until


def sink_on(path: Path, **config: Any) -> AppendOnlyTelemetrySink:
    return AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=path, **config))


def lines(path: Path) -> list[str]:
    return [
        line
        for segment in sorted(path.glob("segment-*.jsonl"))
        for line in segment.read_text().splitlines()
    ]


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    preamble = (
        "import os, sys\nfrom pathlib import Path\n"
        "from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig\n"
        "sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1])))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", preamble + program, str(path)], capture_output=True, text=True
    )


def test_a_session_from_start_to_rollups(tmp_path: Path) -> None:
    sink = sink_on(tmp_path)
    started = sink.start_session(summary())
    assert (started.status, started.ended_at_ns) == ("running", None)
    assert sink.current_session() == started
    for number in range(120):
        sink.append(record(timestamp_ns=number))
    sink.close()
    assert sink.current_session() is None
    assert [event.timestamp_ns for event in load_telemetry_events(tmp_path)] == list(range(120))
    rollups = read_telemetry_rollups(tmp_path)
    assert rollups is not None
    assert rollups.sessions[0].event_count == 120
    manifest = read_telemetry_sink_manifest(tmp_path)
    assert manifest is not None
    assert manifest.dropped_event_count == 0
    assert "dropped" not in (tmp_path / "manifest.json").read_text()


def test_a_program_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    done = run("sink.append({'session_id': 's', 'n': 1})", tmp_path)
    assert done.returncode == 0, done.stderr
    assert lines(tmp_path) == ['{"n": 1, "session_id": "s"}']
    again = sink_on(tmp_path)
    manifest = read_telemetry_sink_manifest(tmp_path)
    assert manifest is not None
    assert [session.status for session in manifest.sessions] == ["interrupted"]
    again.close()


FORK = """
sink.append({"session_id": "s", "who": "parent", "n": 1})
child = os.fork()
if child == 0:
    # The parent's buffer is not the child's to write, nor is its directory.
    sink.flush(force=True)
    sink.append({"session_id": "s", "who": "child"})
    sink.close()
    os._exit(0)
os.waitpid(child, 0)
sink.append({"session_id": "s", "who": "parent", "n": 2})
sink.close()
print(child)
"""


def test_after_a_fork_the_child_has_a_sink_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "sink"
    done = run(FORK, path)
    assert done.returncode == 0, done.stderr
    child = done.stdout.strip()
    assert [json.loads(line)["who"] for line in lines(path)] == ["parent", "parent"]
    sibling = tmp_path / f"sink-pid{child}"
    assert [json.loads(line)["who"] for line in lines(sibling)] == ["child"]
    assert sorted(tmp_path.iterdir()) == [path, sibling]
    assert load_telemetry_sessions_of(path) == [("s", "completed")]


def load_telemetry_sessions_of(path: Path) -> list[tuple[str, str]]:
    manifest = read_telemetry_sink_manifest(path)
    assert manifest is not None
    return [(session.session_id, session.status) for session in manifest.sessions]


# The child outlives its parent, which is killed right after the fork or a little later.
IDLE_CHILDREN = {
    "os.fork": """
import time
sink.append({"session_id": "s"})
if os.fork() == 0:
    time.sleep(600)
    os._exit(0)
os.kill(os.getpid(), 9)
""",
    "multiprocessing": """
import multiprocessing, time
sink.append({"session_id": "s"})
multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
time.sleep(0.3)
os.kill(os.getpid(), 9)
""",
    "a tracker's sink": """
import time
from stormlog.cpu_profiler import CPUMemoryTracker
sink.close()
del sink
config = TelemetrySinkConfig(root_dir=Path(sys.argv[1]), flush_every_events=1)
tracker = CPUMemoryTracker(sampling_interval=0.001, telemetry_sink_config=config)
tracker.start_tracking()
while not Path(sys.argv[1], "manifest.json").exists():
    time.sleep(0.01)
if os.fork() == 0:
    time.sleep(600)
    os._exit(0)
os.kill(os.getpid(), 9)
""",
}


@pytest.mark.parametrize("program", IDLE_CHILDREN.values(), ids=IDLE_CHILDREN)
def test_a_child_does_not_keep_the_directory_of_a_dead_parent(program: str, tmp_path: Path) -> None:
    path = tmp_path / "sink"
    for _ in range(3):
        with left_running(program, path):
            wait_until_free(path)
            again = sink_on(path)
            assert again.directory == path
            again.close()
            del again


FORKS_WHILE_OTHERS_OPEN = """
import fcntl, signal, threading, time
done = threading.Event()
def work(number):
    while not done.is_set():
        own = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1], str(number))))
        own.append({"session_id": "s"})
threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
for thread in threads:
    thread.start()
children, slowest = [], 0.0
for _ in range(40):
    start = time.monotonic()
    children.append(os.fork())
    if children[-1] == 0:
        time.sleep(600)
        os._exit(0)
    slowest = max(slowest, time.monotonic() - start)
    time.sleep(0.002)
done.set()
for thread in threads:
    thread.join()
del sink
kept = [sys.argv[1], *(f"{sys.argv[1]}/{number}" for number in range(3))]
# A child closes what it inherited in its first moment; for the last one that may still come.
deadline = time.monotonic() + 60
while kept and time.monotonic() < deadline:
    try:
        fcntl.flock(os.open(kept[0], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        del kept[0]
    except BlockingIOError:
        time.sleep(0.05)
for child in children:
    os.kill(child, signal.SIGKILL)
assert not kept, kept
assert slowest < 60, slowest
"""


def test_forks_while_other_threads_open_and_close_sinks(tmp_path: Path) -> None:
    done = run(FORKS_WHILE_OTHERS_OPEN, tmp_path / "sinks")
    assert done.returncode == 0, done.stderr


def wait_until_free(path: Path) -> None:
    """Wait until a directory is not locked; a child releases it when it starts running."""
    directory = os.open(path, os.O_RDONLY)

    def is_free() -> bool:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    wait_until(is_free)
    os.close(directory)


@contextmanager
def left_running(program: str, path: Path) -> Iterator[None]:
    """Like `run`, for a program that kills itself and whose children outlive it."""
    preamble = (
        "import os, sys\nfrom pathlib import Path\n"
        "from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig\n"
        "sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1])))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", preamble + program, str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert parent.wait(PATIENCE_S) == -signal.SIGKILL
        yield
    finally:
        os.killpg(parent.pid, signal.SIGKILL)


def test_a_second_process_says_where_it_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sink"
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom pathlib import Path\n"
            "from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig\n"
            "sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1])))\n"
            "sink.append({'session_id': 'theirs'})\n"
            "print('ready', flush=True)\nsys.stdin.readline()\nsink.close()\n",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    with caplog.at_level(logging.WARNING):
        sink = sink_on(path)
    sibling = tmp_path / f"sink-pid{os.getpid()}"
    assert sink.directory == sibling
    assert [entry.message for entry in caplog.records] == [
        f"another process records into '{path}'; this one records into '{sibling}'"
    ]
    sink.append({"session_id": "ours"})
    sink.close()
    other.communicate("\n")
    assert other.returncode == 0
    assert lines(path) == ['{"session_id": "theirs"}']
    assert lines(sibling) == ['{"session_id": "ours"}']


def test_threads_append_whole_lines(tmp_path: Path) -> None:
    sink = sink_on(tmp_path, flush_every_events=7)
    sink.start_session(summary())

    def work(worker: int) -> None:
        for number in range(500):
            sink.append(record(pid=worker, timestamp_ns=number))

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sink.close()
    [session] = load_telemetry_sessions(tmp_path)
    assert len(session.events) == 2000
    for worker in range(4):
        own = [event.timestamp_ns for event in session.events if event.pid == worker]
        assert own == list(range(500))


class Reentrant(Mapping[str, Any]):
    """A record whose reading appends another."""

    def __init__(self, sink: AppendOnlyTelemetrySink) -> None:
        self.sink = sink

    def __getitem__(self, key: str) -> Any:
        self.sink.append({"inner": 1})
        return {"outer": 1}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(["outer"])

    def __len__(self) -> int:
        return 1


def test_reading_a_record_may_append_another(tmp_path: Path) -> None:
    sink = sink_on(tmp_path)
    sink.append(Reentrant(sink))
    sink.close()
    assert set(lines(tmp_path)) == {'{"inner": 1}', '{"outer": 1}'}


def test_lines_are_those_of_json(tmp_path: Path) -> None:
    class Number(int):
        def __repr__(self) -> str:
            return "not a number"

    records: list[dict[Any, Any]] = [
        {"b": (1, 2.5, [None, True]), "a": {"z": 'é\u2028\x7f"\\', "y": -0.0}},
        {"n": 2**70, "m": Number(5), "k": {2: 1, 10: 2}, "f": {1.5: "x", True: "y"}},
        {"\ud800": "\udfff", "a": 1e16},
        {"same": 1, "keys": 2},
        {"same": "1", "keys": {}},
        {"keys": [], "same": None},
        {},
    ]
    sink = sink_on(tmp_path)
    for one in records:
        sink.append(one)
    sink.close()
    assert lines(tmp_path) == [json.dumps(one, sort_keys=True) for one in records]


def test_records_that_repeat_most_of_the_last_are_written_and_counted_as_they_are(
    tmp_path: Path,
) -> None:
    dice = random.Random(7)
    metadata: dict[str, Any] = {"collector_health_status": "healthy", "step": 0, "note": ["x"]}
    one = record(metadata=metadata)

    def change() -> None:
        nonlocal one, metadata
        match dice.randrange(12):
            case 0:
                metadata["collector_health_status"] = dice.choice(["healthy", "degraded", None])
            case 1:
                metadata["note"].append("y")
            case 2:
                metadata = {**metadata, dice.choice(["severity", "loss"]): "critical"}
            case 3:
                metadata = {"step": 5, "note": []}
            case 4:
                one["event_type"] = dice.choice(["sample", "warning", "collector_degraded"])
            case 5:
                one = dict(reversed(one.items()))
            case 6:
                one["device_total_bytes"] = dice.choice([None, 10, 10**6])
            case 7:
                one["context"] = dice.choice([None, "e\u0301", "fit"])
            case _:
                metadata["step"] = dice.randrange(3)
        one["metadata"] = metadata
        one["timestamp_ns"] += dice.choice([0, 10**9])
        total = one["device_total_bytes"] or 10
        one["device_used_bytes"] = dice.randrange(total)
        one["allocator_allocated_bytes"] = dice.randrange(total)

    sink = sink_on(tmp_path)
    expected = []
    for _ in range(3000):
        one = one if dice.random() < 0.5 else dict(one)
        change()
        expected.append(json.dumps(one, sort_keys=True))
        sink.append(one)
    sink.close()
    assert lines(tmp_path) == expected
    written = read_telemetry_rollups(tmp_path)
    assert written is not None
    again = build_telemetry_rollups(load_telemetry_sessions(tmp_path), None)
    assert written.sessions == again.sessions


@pytest.mark.parametrize("bad", [{"x": {1, 2}}, {(1,): 2}, {"x": {1: 1, "a": 2}}])
def test_what_json_has_no_word_for_is_refused(bad: dict[Any, Any], tmp_path: Path) -> None:
    sink = sink_on(tmp_path)
    with pytest.raises(TypeError):
        sink.append(bad)
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="Circular"):
        sink.append({"x": loop})
    sink.close()
    assert lines(tmp_path) == []


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FileExistsError, match="file"):
        sink_on(tmp_path / "file")


def test_a_sink_that_another_took_over_says_so(tmp_path: Path) -> None:
    first = sink_on(tmp_path, flush_every_events=1)
    first.append({"session_id": "first"})
    second = sink_on(tmp_path, flush_every_events=1)
    second.append({"session_id": "second"})
    with pytest.raises(ValueError, match="taken over"):
        first.append({"session_id": "first"})
    first.close()
    second.close()
    assert len(lines(tmp_path)) == 2
    assert load_telemetry_sessions_of(tmp_path) == [
        ("first", "interrupted"),
        ("second", "completed"),
    ]


def test_thinning_keeps_the_whole_run_within_a_budget(tmp_path: Path) -> None:
    budget = 128 * 1024
    usable = budget - budget // 8
    sink = sink_on(tmp_path, thinning_budget_bytes=budget, rollover_max_events=20)
    sink.start_session(summary())
    for number in range(3000):
        sink.append(
            record(timestamp_ns=number * 100_000_000, allocator_allocated_bytes=number * 7 % 1009)
        )
        if number % 20 == 0:
            wait_until(lambda: sink.get_diagnostics()["final_retained_bytes"] <= usable)  # noqa: F821
    sink.close()
    # A closed sink is still thinned until there is room for the next session.
    wait_until(lambda: sink.get_diagnostics()["final_retained_bytes"] <= usable)  # noqa: F821
    wait_until(lambda: "rewriting" not in (tmp_path / "manifest.json").read_text())
    del sink
    manifest = read_telemetry_sink_manifest(tmp_path)
    assert manifest is not None
    assert manifest.pruned == {}
    assert any(segment.thinned_interval_ns for segment in manifest.segments)
    events = load_telemetry_events(tmp_path)
    assert len(events) + manifest.thinned["samples_dropped"] == 3000
    assert max(event.allocator_allocated_bytes for event in events) == 1008
    assert sum(segment.stat().st_size for segment in tmp_path.glob("segment-*")) <= budget
    with pytest.raises(ValueError, match="thinning_budget_bytes must be >= 1"):
        TelemetrySinkConfig(root_dir=tmp_path, thinning_budget_bytes=0)


COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_slow_disk_does_not_stop_the_other_threads(tmp_path: Path) -> None:
    source, library = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(
        "#include <unistd.h>\n#include <sys/syscall.h>\n"
        "int fdatasync(int fd) { usleep(1000000); return syscall(SYS_fdatasync, fd); }\n"
    )
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source], check=True)
    script = """
        import json, sys, threading, time
        from pathlib import Path
        from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig

        ticks, is_over = [time.monotonic()], False

        def tick():
            while not is_over:
                ticks.append(time.monotonic())
                time.sleep(0.005)

        threading.Thread(target=tick).start()
        record = json.loads(sys.argv[2])
        sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=Path(sys.argv[1])))
        sink.append(record)
        flushing = threading.Thread(target=sink.flush, kwargs={"force": True})
        flushing.start()
        time.sleep(0.1)
        sink.directory
        sink.take_notices()
        flushing.join()
        sink.append(record)
        del sink, flushing
        is_over = True
        print(max(late - early for early, late in zip(ticks, ticks[1:])))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "sink", json.dumps(record())],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.6
    assert len(lines(tmp_path / "sink")) == 2


def test_a_relative_directory_stays_where_it_is_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    sink = sink_on(Path("run"), flush_every_events=1, rollover_max_events=2)
    sink.start_session(summary())
    sink.append(record())
    monkeypatch.chdir(elsewhere)
    for _ in range(5):
        sink.append(record())
    sink.close()
    assert list(elsewhere.iterdir()) == [] and len(lines(tmp_path / "run")) == 6
    manifest = read_telemetry_sink_manifest(tmp_path / "run")
    assert manifest is not None and [one.status for one in manifest.sessions] == ["completed"]
