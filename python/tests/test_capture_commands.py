"""The commands that record, on real programs, and the exit codes that they pass on."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stormlog.telemetry import load_telemetry_sessions
from waiting import FOR_PROGRAMS, PATIENCE_S, recorded_since

# Allocates memory and, when given a sink, ends once a sample there has all of it.
WORK = f"""{FOR_PROGRAMS}
import sys
kept = [bytearray(1 << 20) for _ in range(20)]
for sink in sys.argv[1:]:
    wait_for_events(sink, 20)
print("done")
"""


def program(name: str) -> list[str]:
    call = f"import sys; from stormlog import entrypoint; sys.exit(entrypoint.{name}())"
    return [sys.executable, "-c", call]


def run(
    *arguments: object, name: str = "main", **options: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program(name), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        **options,  # type: ignore[call-overload]
    )


def only_session(path: Path):
    (session,) = load_telemetry_sessions(path)
    return session


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_capture_with_its_files_whole(
    tmp_path: Path, ending: signal.Signals
) -> None:
    command = [*program("gpumemprof"), "track", "--interval", "0.01"]
    command += [
        "--telemetry-sink-dir",
        str(tmp_path / "sink"),
        "--output",
        str(tmp_path / "out.json"),
    ]
    process = subprocess.Popen(
        [*command, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # From the moment it says so it can be ended.
    assert process.stdout is not None
    assert any(line.startswith("Press Ctrl+C") for line in process.stdout)
    process.send_signal(ending)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "Tracking Summary:" in out
    assert only_session(tmp_path / "sink").summary.status == "completed"
    assert json.loads((tmp_path / "out.json").read_text())[-1]["event_type"] == "stop"


def test_a_signal_for_a_watched_command_reaches_it(tmp_path: Path) -> None:
    handle = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(9)); print(1, flush=True)\n"
    handle += "while True: time.sleep(0.05)"
    command = [*program("main"), "track", "--sink", str(tmp_path / "sink"), "--"]
    process = subprocess.Popen(
        [*command, sys.executable, "-c", handle], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 9
    assert only_session(tmp_path / "sink").summary.status == "interrupted"


def test_track_says_when_nothing_could_be_stored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sink = tmp_path / "file" / "sink"
    result = run("track", "--sink", sink, "--", "sleep", "0.1")
    assert "session incomplete" in result.stdout and "written to" not in result.stdout
    assert "warning: the recording is incomplete: cannot open" in result.stderr
    assert result.stderr.count("cannot open") == 1
    result = run("track", "--json", "--sink", sink, "--", "sleep", "0.1")
    assert json.loads(result.stdout)["sink"] is None
    # With a command, its exit code is passed on; without one, a failed recording is exit code 1.
    assert result.returncode == 0
    result = run("track", "--pid", os.getpid(), "--duration", "0.2", "--sink", sink)
    assert result.returncode == 1, result.stderr


def test_track_says_when_it_records_beside_another(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    inner = (*program("main"), "track", "--sink", sink, "--", "sleep", "0.2")
    wait = f'while [ ! -e {sink}/manifest.json ]; do sleep 0.02; done; exec "$@"'
    result = run("track", "--sink", sink, "--", "sh", "-c", wait, "sh", *inner)
    assert f"note: another process records into '{sink}'" in result.stderr


def test_track_follows_a_command_and_its_children(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(WORK)
    sink = tmp_path / "sink"
    arguments = ("--interval", "0.02", "--sink", sink, "--output", tmp_path / "out.csv", "--json")
    result = run("track", *arguments, "--", "sh", "-c", f"{sys.executable} {script} {sink}; true")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout.split("done\n")[1])
    assert summary["peak_memory_bytes"] > 20 << 20
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    samples = [json.loads(row["metadata"]) for row in rows if row["event_type"] == "sample"]
    assert max(sample["process_count"] for sample in samples) == 2


def test_a_short_duration_is_kept() -> None:
    # Without a duration it would record until this process ends.
    result = run("track", "--pid", os.getpid(), "--duration", "0.2")
    assert result.returncode == 0 and "session completed" in result.stdout


def test_what_cannot_be_tracked_is_told(tmp_path: Path) -> None:
    for arguments, message in (
        (("track", "--pid", "999999999"), "process 999999999 not found"),
        (("track", "--interval", "0", "--", "true"), "must be > 0"),
        (("track", "--output", "x.xml", "--", "true"), "unknown output format for 'x.xml'"),
        (("run", "--", "/no/such/program"), "cannot run '/no/such/program'"),
    ):
        result = run(*arguments, cwd=tmp_path)
        assert result.returncode == 1 and message in result.stderr, (arguments, result)


def test_the_demo_names_the_variable_and_the_line_that_leak(tmp_path: Path) -> None:
    result = run("demo", "--dir", tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    lines = (tmp_path / "demo" / "service.py").read_text().splitlines()
    line = 1 + next(at for at, text in enumerate(lines) if "PAGES[session] = page" in text)
    assert f"Items added at service.py:{line} in handle" in result.stdout
    assert "Held by PAGES in __main__" in result.stdout
    assert result.stdout.count(f"LIKELY LEAK  PAGES  service.py:{line}  +") == 1
    assert f"$ stormlog analyze {tmp_path}/demo/run\n" in result.stderr
    assert "<svg" in (tmp_path / "demo" / "timeline.html").read_text()


def test_a_demo_keeps_the_recordings_of_earlier_demos(tmp_path: Path) -> None:
    for name in ("run", "run-2"):
        result = run("demo", "--seconds", "0.5", "--dir", tmp_path)
        assert result.returncode == 0, result.stderr
        assert only_session(tmp_path / name).events


def test_the_demo_does_not_run_without_a_recording(tmp_path: Path) -> None:
    disabled = run("demo", "--dir", tmp_path, env={**os.environ, "STORMLOG_DISABLE": "1"})
    assert disabled.returncode == 1 and "STORMLOG_DISABLE=1 is set" in disabled.stderr


def test_the_old_commands_print_what_they_always_did(tmp_path: Path) -> None:
    info = run("info", name="gpumemprof")
    assert info.stdout.startswith("Stormlog - System Information\n" + "=" * 50)
    monitor = run("monitor", "--duration", "0.3", "--interval", "0.05", name="gpumemprof")
    assert "Monitoring Summary:" in monitor.stdout and "Snapshots collected: " in monitor.stdout
    arguments = ("--duration", "0.3", "--interval", "0.05", "--output", tmp_path / "out.csv")
    track = run("track", *arguments, name="gpumemprof")
    assert f"Events saved to: {tmp_path / 'out.csv'}" in track.stdout
    assert run("info", name="tfmemprof").stdout.startswith("TensorFlow Stormlog")


def test_tfmemprof_track_writes_its_file(tmp_path: Path, wait_until) -> None:
    command = [*program("tfmemprof"), "track", "--interval", "0.02", "--threshold", "1"]
    command += ["--telemetry-sink-dir", str(tmp_path / "sink"), "--telemetry-flush-seconds", "0.1"]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "out.json")], stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: recorded_since(tmp_path / "sink") > 10 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    result = json.loads((tmp_path / "out.json").read_text())
    assert set(result) >= {
        "peak_memory",
        "average_memory",
        "duration",
        "memory_usage",
        "timestamps",
        "alerts",
        "events",
    }
    assert len(result["memory_usage"]) == len(result["timestamps"]) > 3
    assert len(result["alerts"]) == 1


def test_track_with_a_watchdog_and_a_flight_recorder(tmp_path: Path) -> None:
    result = run(
        *("track", "--duration", "0.5", "--interval", "0.02", "--watchdog"),
        *("--warning-threshold", "0.00001", "--critical-threshold", "0.00002"),
        *("--oom-flight-recorder", "--oom-dump-dir", tmp_path / "dumps", "--oom-buffer-size", "50"),
        *("--output", tmp_path / "out.json", "--format", "json"),
        name="gpumemprof",
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("Performed aggressive memory cleanup") == 1
    events = [event["event_type"] for event in json.loads((tmp_path / "out.json").read_text())]
    assert events.count("cleanup") == 1
    # Memory did not run out.
    assert not (tmp_path / "dumps").exists()
    refused = run("track", "--oom-buffer-size", "0", name="gpumemprof")
    assert refused.returncode == 1 and "--oom-buffer-size" in refused.stderr
