"""Programs that close what is not theirs, run out of memory, or start a second tracker; and
readers that must not take one process for another."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stormlog.query
from conftest import FAKE_TORCH
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry import load_telemetry_sessions
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
from test_capture_commands import program, run
from waiting import FOR_PROGRAMS, PATIENCE_S, recorded_since, wait_until

# Closes every descriptor that it did not open, and opens files of its own under their numbers.
CLOSES_DESCRIPTORS = """
import os, sys, time
from pathlib import Path

def close_and_open(folder, sink):
    os.closerange(3, 256)
    closed_ns = time.time_ns()
    files = [open(Path(folder, f"mine-{number}"), "w+") for number in range(40)]
    for file in files:
        file.write("mine")
        file.flush()
    wait_for_events(sink, 20)
    return files, closed_ns

def check(files):
    for number, file in enumerate(files):
        facts, named = os.fstat(file.fileno()), os.stat(file.name)
        assert facts.st_ino == named.st_ino, f"{file.name} was closed"
        file.write(" and mine")
        file.close()
        text = Path(file.name).read_text()
        assert text == "mine and mine", f"{file.name}: {text[:80]!r}"
"""


def test_a_tracker_keeps_out_of_the_files_of_a_program_that_closes_descriptors(
    tmp_path: Path,
) -> None:
    sink, files = tmp_path / "sink", tmp_path / "files"
    files.mkdir()
    script = tmp_path / "program.py"
    script.write_text(
        f"{FOR_PROGRAMS}{CLOSES_DESCRIPTORS}"
        "from stormlog.cpu_profiler import CPUMemoryTracker\n"
        "from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig\n"
        "sink, folder = sys.argv[1:]\n"
        "tracker = CPUMemoryTracker(sampling_interval=0.002,\n"
        "    telemetry_sink_config=TelemetrySinkConfig(root_dir=sink, flush_every_events=5))\n"
        "tracker.start_tracking()\n"
        "wait_for_events(sink, 20)\n"
        "files, closed_ns = close_and_open(folder, sink)\n"
        "import subprocess\n"
        "other = 'import sys; from stormlog.telemetry_sink import *;' \\\n"
        "    'print(AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=sys.argv[1])).directory)'\n"
        "print(subprocess.run([sys.executable, '-c', other, sink], capture_output=True,\n"
        "    text=True).stdout, closed_ns, end='')\n"
        "tracker.stop_tracking()\n"
        "check(files)\n"
    )
    ended = subprocess.run(
        [sys.executable, script, sink, files], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    assert "closed file descriptors of the recorder" in ended.stderr
    directory, closed_ns = ended.stdout.split()
    # Closing the descriptor released the lock of the sink. The recorder took it again, so the
    # second sink had to use another directory.
    assert directory.startswith(f"{sink}-pid")
    (session,) = load_telemetry_sessions(sink)
    assert session.summary.status == "completed"
    times = [event.timestamp_ns for event in session.events]
    assert sum(at > int(closed_ns) for at in times) >= 20
    samples = [event.timestamp_ns for event in session.events if event.event_type == "sample"]
    assert times == sorted(times) and len(samples) == len(set(samples))


def test_run_keeps_out_of_the_files_of_a_program_that_closes_descriptors(tmp_path: Path) -> None:
    out, files = tmp_path / "out", tmp_path / "files"
    files.mkdir()
    script = tmp_path / "train.py"
    script.write_text(
        f"{FOR_PROGRAMS}{CLOSES_DESCRIPTORS}"
        "import torch\n"
        "out, folder = sys.argv[1:]\n"
        "wait_for_events(Path(out, 'segment-000001.jsonl').parent, 20)\n"
        "files, _ = close_and_open(folder, out)\n"
        "check(files)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH)}
    command = (sys.executable, script, out, files)
    result = run("run", "--dir", out, "--interval", "0.02", "--", *command, env=environment)
    assert result.returncode == 0, result.stderr
    (device,) = (
        session
        for session in load_telemetry_sessions(out)
        if session.summary.source == "stormlog.run"
    )
    assert device.summary.status == "completed"
    assert {path.read_text() for path in files.iterdir()} == {"mine and mine"}


def test_a_second_tracker_on_a_directory_is_reported_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def tracker() -> CPUMemoryTracker:
        config = TelemetrySinkConfig(root_dir=tmp_path / "sink", flush_every_events=100_000)
        return CPUMemoryTracker(sampling_interval=0.002, telemetry_sink_config=config)

    first, second = tracker(), tracker()
    first.start_tracking()
    wait_until(lambda: len(first.get_events()) > 20)
    known = len(first.get_events())
    with caplog.at_level(logging.WARNING, logger="stormlog.tracker"):
        second.start_tracking()
        assert "another tracker of this process records into" in caplog.text
        wait_until(lambda: len(second.get_events()) > 20)
        second.stop_tracking()
        first.stop_tracking()
    assert "has ended as interrupted" in caplog.text
    ends = {
        session.summary.session_id: (session.summary.status, len(session.events))
        for session in load_telemetry_sessions(tmp_path / "sink")
    }
    first_summary, second_summary = first.get_session_summary(), second.get_session_summary()
    assert first_summary is not None and second_summary is not None
    status, events = ends[first_summary.session_id]
    assert status == "interrupted" and events >= known
    assert ends[second_summary.session_id] == ("completed", len(second.get_events()))


def test_a_program_that_runs_out_of_memory_survives_its_recorder(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import resource, sys, time\n"
        "from stormlog.cpu_profiler import CPUMemoryTracker\n"
        "from stormlog.telemetry_sink import TelemetrySinkConfig\n"
        "status = open('/proc/self/status').read()\n"
        "size = int(status.split('VmSize:')[1].split()[0]) * 1024\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (12 << 20), resource.RLIM_INFINITY))\n"
        "tracker = CPUMemoryTracker(sampling_interval=0.001,\n"
        "    telemetry_sink_config=TelemetrySinkConfig(root_dir=sys.argv[1], flush_every_events=10))\n"
        "tracker.start_tracking()\n"
        "held, size, failed, end = [], 1 << 20, 0, time.monotonic() + 2\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        "        held.append(bytearray(size))\n"
        "    except MemoryError:\n"
        "        failed += 1\n"
        "        size = max(size // 2, 64)\n"
        "        if size == 64:\n"
        "            time.sleep(0.01)\n"
        "held.clear()\n"
        "assert failed > 20\n"
        "tracker.stop_tracking()\n"
        "print('survived')\n"
    )
    sink = tmp_path / "sink"
    ended = subprocess.run(
        [sys.executable, script, sink], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (ended.returncode, ended.stdout) == (0, "survived\n"), ended.stderr
    (session,) = load_telemetry_sessions(sink)
    assert session.summary.status in {"completed", "incomplete"}


def modes(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            yield path, stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_keeps_to_the_umask(tmp_path: Path) -> None:
    out = tmp_path / "all"
    out.mkdir(mode=0o700)
    sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=tmp_path / "mask"))
    sink.close()
    masked = {"preexec_fn": lambda: os.umask(0o077)}
    work = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    for arguments in (
        ["run", "--dir", out / "run", "--interval", "0.02", "--", *work],
        ["track", "--sink", out / "track", "--interval", "0.02", "--", *work],
        ["diagnose", "--output", out / "bundle", "--duration", "0.2"],
        ["plot", out / "run", "-o", out / "page.html"],
        ["plot", out / "run", "-o", out / "plot.svg"],
        ["convert", out / "track", out / "converted.csv"],
    ):
        result = run(*arguments, **masked)
        assert result.returncode in (0, 2), (arguments, result.stderr)
    assert sum(path.is_file() for path, _ in modes(out)) > 10
    assert [path for path, mode in modes(out) if mode & 0o077] == []


def test_the_temporary_folder_of_a_killed_process_is_deleted_by_the_next(tmp_path: Path) -> None:
    hold = "import sys; from stormlog._temporary import temporary_folder\n"
    hold += "with temporary_folder() as folder: print(folder, flush=True); sys.stdin.read()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def holder() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", hold],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    killed, left = holder()
    killed.kill()
    killed.communicate()
    theirs = tmp_path / "stormlog-notes-of-mine"
    theirs.mkdir()
    assert left.is_dir()
    first, living = holder()
    assert not left.exists() and theirs.is_dir()
    second, _ = holder()
    assert living.is_dir(), "its process lives"
    first.communicate()
    second.communicate()
    assert list(tmp_path.iterdir()) == [theirs]


def status_of(sink: Path) -> str:
    (row,) = stormlog.query.open([sink]).list_sessions()
    assert row.status == "running"
    return row.effective_status or ""


RECORDS = """
import os, sys, time
from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import TelemetrySinkConfig
config = TelemetrySinkConfig(root_dir=sys.argv[1])
tracker = CPUMemoryTracker(telemetry_sink_config=config)
tracker.start_tracking()
assert tracker._owner.core.flush(60)
print("recording", flush=True)
if sys.argv[2:] == ["die"]:
    os._exit(0)
sys.stdin.read()
os._exit(0)
"""


# A sink without a tracker: its manifest is that of stormlog 0.3.9 and cannot identify the recorder.
RECORDS_PLAINLY = """
import os, sys
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=sys.argv[1]))
sink.start_session()
print("recording", flush=True)
if sys.argv[2:] == ["die"]:
    os._exit(0)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.parametrize("code", [RECORDS, RECORDS_PLAINLY], ids=["tracker", "plain"])
def test_a_zombie_does_not_record(code: str, tmp_path: Path) -> None:
    recorder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "sink", "die"], stdout=subprocess.PIPE
    )
    assert recorder.stdout is not None and recorder.stdout.readline() == b"recording\n"
    # The recorder has ended and is a zombie.
    wait_until(lambda: " Z " in Path(f"/proc/{recorder.pid}/stat").read_text())
    # Its other threads may end a moment later.
    wait_until(lambda: status_of(tmp_path / "sink") == "interrupted")
    recorder.communicate()


@pytest.mark.parametrize("code", [RECORDS, RECORDS_PLAINLY], ids=["tracker", "plain"])
def test_a_recorder_in_another_container_is_not_judged_by_its_number(
    code: str, tmp_path: Path
) -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"]).returncode != 0:
        pytest.skip("process ids cannot be separated here")
    sink = tmp_path / "sink"
    recorder = subprocess.Popen(
        [*unshare, sys.executable, "-c", code, sink],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert recorder.stdout is not None and recorder.stdout.readline() == b"recording\n"
    assert status_of(sink) == "running"
    recorder.communicate()
    # In its container the recorder is process 1, and here process 1 always runs. So only the age of
    # its last event shows that it has ended.
    assert status_of(sink) == "running"
    hour_ns = 3600 * 10**9
    for path in sink.iterdir():
        text = re.sub(
            r"\b1\d{18}\b", lambda time_ns: str(int(time_ns[0]) - hour_ns), path.read_text()
        )
        path.write_text(text)
    assert status_of(sink) == "interrupted"


def test_a_plain_sink_is_not_mistaken_for_a_process_with_its_number(tmp_path: Path) -> None:
    attribute = "user.stormlog.recorder"
    try:
        os.setxattr(tmp_path, attribute, b"of a killed recorder")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(root_dir=tmp_path))
    session = sink.start_session()
    assert status_of(tmp_path) == "running"
    ours = os.getxattr(tmp_path, attribute)
    mark = json.loads(ours)
    assert (mark["session_id"], mark["recorder"]["pid"]) == (session.session_id, os.getpid())
    mark["recorder"]["start_ticks"] -= 1
    os.setxattr(tmp_path, attribute, json.dumps(mark).encode())
    assert status_of(tmp_path) == "interrupted", "another process had this number"
    # With the mark of an earlier session, an invalid mark or none, host name and pid decide.
    mark["session_id"] = "earlier"
    for other in [json.dumps(mark).encode(), b"\xff", b"[" * 2048, b"[" * 3000, b""]:
        os.setxattr(tmp_path, attribute, other)
        assert status_of(tmp_path) == "running"
    os.removexattr(tmp_path, attribute)
    assert status_of(tmp_path) == "running"
    os.setxattr(tmp_path, attribute, ours)
    sink.close()
    assert attribute not in os.listxattr(tmp_path)


def test_a_run_whose_command_was_killed_is_interrupted_while_its_program_goes_on(
    tmp_path: Path,
) -> None:
    out, stop = tmp_path / "out", tmp_path / "stop"
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    command = [
        *program("main"),
        "run",
        "--dir",
        str(out),
        "--",
        sys.executable,
        "-c",
        wait,
        str(stop),
    ]
    recorder = subprocess.Popen(command)
    wait_until(lambda: recorded_since(out) > 0)
    assert status_of(out / "host") == "running"
    recorder.kill()
    recorder.wait()
    try:
        assert status_of(out / "host") == "interrupted"
        assert list(out.glob(".inbox-*")), "what the killed command left"
        # The next command in the directory deletes it.
        assert run("run", "--dir", out, "-q", "--", "true").returncode == 0
        assert not list(out.glob(".inbox-*"))
    finally:
        stop.touch()


def test_a_limit_on_the_address_space_is_left_to_the_program(tmp_path: Path) -> None:
    """With ``ulimit -v`` a program has as much address space as without ``run``."""
    code = (
        "size = lambda pid: next(int(line.split()[1]) for line in open(f'/proc/{pid}/status') if line.startswith('VmPeak'))\n"
        "import os, time; time.sleep(1.2); print(size('self'), size(os.getppid()))"
    )
    limited = ["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh"]
    alone = subprocess.run(
        [*limited, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    command = [
        *limited,
        *program("main"),
        "run",
        "--quiet",
        "--dir",
        str(tmp_path / "run"),
        "--",
        sys.executable,
        "-c",
        code,
    ]
    watched = subprocess.run(command, capture_output=True, text=True, check=True)
    own, _ = map(int, alone.stdout.split())
    under_run, parent = map(int, watched.stdout.split())
    assert under_run < own + 8_000, (under_run, own)
    # Python itself with the extension module, and three threads that share one pool.
    assert parent < 200_000, parent
    assert watched.stderr == ""
    assert list((tmp_path / "run").rglob("segment-*"))
