"""The tracker of the process's own memory, and its life with the process."""

from __future__ import annotations

import csv
import json
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import ModuleType

import pytest

from stormlog import _core
from stormlog.cpu_profiler import CPUMemoryProfiler, CPUMemoryTracker
from stormlog.errors import PhaseProtocolError, StormlogError
from stormlog.oom_flight_recorder import OOMFlightRecorder, OOMFlightRecorderConfig
from stormlog.telemetry import load_telemetry_sessions
from stormlog.telemetry_sink import AppendOnlyTelemetrySink, TelemetrySinkConfig
from stormlog.tracker import MemoryTracker
from waiting import FOR_PROGRAMS, PATIENCE_S


def run_script(script: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        **options,  # type: ignore[call-overload]
    )


def fresh_memory(size: int) -> mmap.mmap:
    """Memory from the system: an allocator may have some left that a test before has freed."""
    block = mmap.mmap(-1, size)
    for page in range(0, size, mmap.PAGESIZE):
        block[page] = 1
    return block


def test_statistics_events_and_timeline(wait_until) -> None:
    tracker = CPUMemoryTracker(sampling_interval=0.01)
    assert tracker.get_statistics()["total_events"] == 0
    with tracker:
        wait_until(lambda: len(tracker.get_events("sample")) >= 3)
        with fresh_memory(64 << 20):
            wait_until(lambda: tracker.get_events("allocation"))
    statistics = tracker.get_statistics()
    assert statistics["mode"] == "cpu"
    assert statistics["peak_memory"] >= statistics["current_memory_allocated"] > 1 << 20
    assert statistics["total_allocations"] >= 1
    assert statistics["session_status"] == "completed"
    events = tracker.get_events()
    assert events[0].event_type == "start" and events[-1].event_type == "stop"
    assert events[0].device_total and events[0].device_free
    assert tracker.get_events(since=events[-1].timestamp) == [events[-1]]
    assert tracker.get_events(last_n=1) == [events[-1]]
    timeline = tracker.get_memory_timeline(interval=0.05)
    assert len(timeline["timestamps"]) == len(timeline["allocated"]) >= 1
    assert all(isinstance(value, float) for value in timeline["allocated"])
    tracker.clear_events()
    assert tracker.get_events() == []
    assert tracker.get_statistics()["tracking_duration_seconds"] > 0


def test_exports_load_again(tmp_path: Path, wait_until) -> None:
    with (
        CPUMemoryTracker(sampling_interval=0.01) as tracker,
        tracker.phase("load", metadata={"files": 3}),
    ):
        wait_until(lambda: tracker.get_events("sample"))
    tracker.export_events(str(tmp_path / "events.csv"))
    tracker.export_events(str(tmp_path / "events.json"), format="json")
    with (tmp_path / "events.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    records = json.loads((tmp_path / "events.json").read_text())
    assert [json.loads(row["metadata"]) for row in rows] == [row["metadata"] for row in records]
    for name in ("events.csv", "events.json"):
        (session,) = load_telemetry_sessions(tmp_path / name)
        assert len(session.events) == len(records)
    scope = next(row for row in records if row["event_type"] == "phase_enter")["metadata"]
    assert scope["phase_scope"]["attributes"] == {"files": 3}


def test_phases_hold_their_protocol() -> None:
    tracker = CPUMemoryTracker(sampling_interval=5)
    with pytest.raises(RuntimeError, match="Tracking must be active"):
        tracker.enter_phase("early")
    with tracker:
        outer, inner = tracker.enter_phase("outer"), tracker.enter_phase(" inner ")
        assert inner.phase_path == "outer / inner"
        with pytest.raises(PhaseProtocolError, match="LIFO"):
            outer.close()
        inner.close()
        outer.close()
        outer.close()
        with pytest.raises(ValueError, match="non-empty"):
            tracker.enter_phase("  ")
        open_phase = tracker.enter_phase("open")
    with pytest.raises(PhaseProtocolError):
        open_phase.close()


@pytest.mark.parametrize("interval", [0, -1.0, float("nan")])
def test_an_interval_that_nothing_can_keep_to_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="interval must be > 0"):
        CPUMemoryProfiler().start_monitoring(interval)
    with pytest.raises(ValueError, match="sampling_interval must be > 0"):
        CPUMemoryTracker(sampling_interval=interval)
    # Raised before a device is looked for, because there may be none.
    with pytest.raises(ValueError, match="sampling_interval must be > 0"):
        MemoryTracker(sampling_interval=interval)


def test_stops_at_once_whatever_the_interval() -> None:
    def seconds_to_stop() -> float:
        tracker = CPUMemoryTracker(sampling_interval=3600)
        tracker.start_tracking()
        tracker.start_tracking()
        start = time.monotonic()
        tracker.stop_tracking()
        tracker.stop_tracking()
        return time.monotonic() - start

    # The best of several: a busy machine is late now and then, code that waits every time.
    assert min(seconds_to_stop() for _ in range(5)) < 0.1


def test_a_sink_holds_everything(tmp_path: Path, wait_until) -> None:
    config = TelemetrySinkConfig(root_dir=tmp_path / "sink")
    with CPUMemoryTracker(sampling_interval=0.005, telemetry_sink_config=config) as tracker:
        wait_until(lambda: len(tracker.get_events("sample")) >= 20)
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    summary = tracker.get_session_summary()
    assert (session.summary.session_id, session.summary.status) == (
        summary.session_id,
        "completed",
    )
    assert len(session.events) == tracker.get_statistics()["total_events"]
    assert [event.event_type for event in session.events][-1] == "stop"


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        ("pass", "completed", 0),
        ("raise SystemExit(3)", "completed", 3),
        ("1 / 0", "interrupted", 1),
        ("os._exit(4)", "running", 4),
        ("os.kill(os.getpid(), 9)", "running", -9),
    ],
)
def test_a_program_that_ends_with_tracking_on(
    tmp_path: Path, end: str, status: str, code: int
) -> None:
    script = f"""
        import os, sys
        from stormlog.cpu_profiler import CPUMemoryTracker
        from stormlog.telemetry_sink import TelemetrySinkConfig
        sink = TelemetrySinkConfig(sys.argv[1], flush_every_events=1)
        CPUMemoryTracker(sampling_interval=0.005, telemetry_sink_config=sink).start_tracking()
        wait_for_events(sys.argv[1], 6)
        {end}
    """
    result = run_script(FOR_PROGRAMS + textwrap.dedent(script), str(tmp_path / "sink"))
    assert result.returncode == code, result.stderr
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert session.summary.status == status
    assert len(session.events) > 5


def test_a_forked_child_leaves_the_parents_recording_alone(tmp_path: Path) -> None:
    script = """
        import os, sys, time, json
        from stormlog.cpu_profiler import CPUMemoryTracker
        from stormlog.telemetry_sink import TelemetrySinkConfig
        sink = TelemetrySinkConfig(sys.argv[1])
        tracker = CPUMemoryTracker(sampling_interval=0.001, telemetry_sink_config=sink)
        tracker.start_tracking()
        codes = []
        for _ in range(20):
            time.sleep(0.005)
            pid = os.fork()
            if pid == 0:
                assert not tracker.is_tracking
                tracker.stop_tracking()
                tracker.get_statistics()
                own = CPUMemoryTracker(sampling_interval=0.01)
                own.start_tracking()
                own.stop_tracking()
                assert own.get_events()
                sys.exit(7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        assert codes == [7] * 20, codes
        assert tracker.is_tracking
        tracker.stop_tracking()
        print(json.dumps(tracker.get_statistics()["total_events"]))
    """
    result = run_script(script, str(tmp_path / "sink"))
    assert result.returncode == 0, result.stderr
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert len(session.events) == int(result.stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["sink"]


def test_threads_may_use_one_tracker(wait_until) -> None:
    import threading

    with CPUMemoryTracker(sampling_interval=0.001) as tracker:
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(50):
                    with tracker.phase("outer"), tracker.phase("inner"):
                        tracker.get_statistics()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert len(tracker.get_events("phase_exit")) == 4 * 50 * 2


def test_the_history_is_bounded(wait_until) -> None:
    with CPUMemoryTracker(sampling_interval=0.001, max_events=5) as tracker:
        wait_until(lambda: tracker.get_statistics()["history_dropped_events"] > 5)
    statistics = tracker.get_statistics()
    assert statistics["history_retained_events"] == len(tracker.events) == 5
    assert statistics["history_dropped_events"] > 5


@pytest.mark.parametrize("arguments", [{"sampling_interval": 0}, {"max_events": 0}])
def test_impossible_arguments(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        CPUMemoryTracker(**arguments)  # type: ignore[arg-type]


def test_a_rank_without_its_world_is_told_once(tmp_path: Path) -> None:
    script = """
        import logging
        logging.basicConfig()
        from stormlog.cpu_profiler import CPUMemoryTracker
        print(CPUMemoryTracker().distributed_identity["rank"])
        CPUMemoryTracker()
    """
    result = run_script(script, env={**os.environ, "RANK": "3"})
    assert result.stdout == "0\n"
    assert result.stderr.count("launcher's variables are incomplete") == 1


def test_the_profiler_measures_functions_and_blocks(wait_until) -> None:
    profiler = CPUMemoryProfiler()
    kept: list[mmap.mmap] = []
    result = profiler.profile_function(lambda size: kept.append(fresh_memory(size)), 32 << 20)
    assert result.memory_diff() > 16 << 20
    with pytest.raises(ZeroDivisionError), profiler.profile_context("fails"):
        1 / 0
    assert [entry.to_dict()["name"] for entry in profiler.results] == ["<lambda>", "fails"]
    profiler.start_monitoring(0.01)
    wait_until(lambda: len(profiler.snapshots) >= 2)
    profiler.stop_monitoring()
    summary = profiler.get_summary()
    assert summary["snapshots_collected"] == len(profiler.snapshots) >= 2
    assert summary["peak_memory_usage"] >= profiler.snapshots[0].to_dict()["rss"]
    profiler.clear_results()
    assert profiler.get_summary()["snapshots_collected"] == 0


def test_a_size_that_cannot_be_read_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, wait_until
) -> None:
    profiler = CPUMemoryProfiler()
    sizes: list[tuple[int, int] | None] = [None, None, (2 << 20, 3 << 20), None]
    monkeypatch.setattr(_core, "process_sizes", lambda: sizes.pop(0) if sizes else None)
    with pytest.raises(StormlogError, match="/proc/self/statm"):
        profiler.profile_function(lambda: None)
    profiler.start_monitoring(0.01)
    wait_until(lambda: not sizes)
    profiler.stop_monitoring()
    assert [snapshot.rss for snapshot in profiler.snapshots] == [2 << 20]


@pytest.mark.parametrize("kind", [CPUMemoryTracker, MemoryTracker])
def test_a_sink_that_cannot_be_opened_is_logged_once(
    kind: type[CPUMemoryTracker | MemoryTracker],
    torch: ModuleType,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    wait_until,
) -> None:
    (tmp_path / "file").touch()
    config = TelemetrySinkConfig(root_dir=tmp_path / "file" / "sink")
    with kind(sampling_interval=0.01, telemetry_sink_config=config):
        wait_until(lambda: caplog.records, 10)
        time.sleep(1.5)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("stormlog.tracker", "WARNING")
    message = record.getMessage()
    assert f"cannot open '{tmp_path}/file/sink'" in message and "Not a directory" in message


def test_signals_are_the_programs(wait_until, tmp_path: Path) -> None:
    """A signal that a thread of ours received would leave the program asleep in a system call."""
    tracker, profiler = CPUMemoryTracker(sampling_interval=0.01), CPUMemoryProfiler()
    sink = AppendOnlyTelemetrySink(TelemetrySinkConfig(tmp_path))
    known = set(os.listdir("/proc/self/task"))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    tracker.start_tracking()
    profiler.start_monitoring(0.01)
    sink.append({"session_id": "run"})

    def blocked(number: int) -> list[bool]:
        found = []
        for thread in set(os.listdir("/proc/self/task")) - known:
            status = Path("/proc/self/task", thread, "status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines())
            found.append(bool(int(fields["SigBlk"], 16) >> (number - 1) & 1))
        return found

    # A new thread blocks all signals for a moment; then it unblocks those of its own faults.
    wait_until(lambda: blocked(signal.SIGSEGV) == [False] * 3)
    assert blocked(signal.SIGINT) == blocked(signal.SIGTERM) == [True] * 3
    sink.close()
    profiler.stop_monitoring()
    tracker.stop_tracking()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_interrupting_a_tracked_program_keeps_its_events(tmp_path: Path) -> None:
    script = """
        import signal, sys, time
        from stormlog.cpu_profiler import CPUMemoryTracker
        from stormlog.telemetry_sink import TelemetrySinkConfig
        # A shell that starts the tests in its background has them ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sink = TelemetrySinkConfig(sys.argv[1])
        with CPUMemoryTracker(sampling_interval=0.01, telemetry_sink_config=sink):
            print("ready", flush=True)
            # One long sleep that begins just after the signal would not end by it.
            while True:
                time.sleep(0.05)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "sink")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) != 0
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert session.summary.status == "completed"
    assert [event.event_type for event in session.events][-1] == "stop"


def test_relative_directories_of_a_tracker_are_those_of_its_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    config = TelemetrySinkConfig(root_dir=Path("run"))
    tracker = CPUMemoryTracker(sampling_interval=3600, telemetry_sink_config=config)
    recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True))
    monkeypatch.chdir(elsewhere)
    with tracker:
        pid = os.fork()
        if pid == 0:
            # The child records into a recorder of its own, which uses the same directory.
            tracker.start_tracking()
            tracker.stop_tracking()
            os._exit(0)
        os.waitpid(pid, 0)
    bundle = recorder.dump(reason="r", exception=MemoryError(), context=None, backend="cpu")
    assert bundle is not None and Path(bundle).parent == tmp_path / "oom_dumps"
    assert list(elsewhere.iterdir()) == [] and config.root_dir == Path("run")
    assert load_telemetry_sessions(tmp_path / "run") != []


def test_a_flight_recorder_may_be_made_in_a_deleted_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert OOMFlightRecorder(OOMFlightRecorderConfig()).config.dump_dir == "oom_dumps"
