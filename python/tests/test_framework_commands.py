"""`tfmemprof` and `jaxmemprof`: real recordings, real files, and what is said of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from stormlog.telemetry import load_telemetry_sessions
from test_capture_commands import program, run
from waiting import PATIENCE_S, recorded_since, wait_until

FAKE_JAX = Path(__file__).parent / "fake_jax"
WITH_JAX = {**os.environ, "PYTHONPATH": str(FAKE_JAX)}
MB = 1 << 20


def without_jax() -> bool:
    from importlib.util import find_spec

    return find_spec("jax") is None


@pytest.mark.skipif(not without_jax(), reason="JAX is installed here")
@pytest.mark.parametrize(
    "arguments", [("monitor",), ("track", "--output", "out.json"), ("diagnose", "--duration", "0")]
)
def test_without_jax_nothing_starts(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*arguments, name="jaxmemprof", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("error: JAX is not installed\nhint: 'pip install jax'")
    assert list(tmp_path.iterdir()) == []


def test_monitor_writes_what_it_saw(tmp_path: Path) -> None:
    arguments = ("monitor", "--duration", "0.6", "--interval", "0.02", "--threshold", "0.5")
    for name, unit in (("tfmemprof", 1.0), ("jaxmemprof", MB)):
        file = tmp_path / f"{name}.json"
        device = ("--device", "/CPU:0" if name == "tfmemprof" else "cpu")
        result = run(*arguments, *device, "--output", file, name=name, env=WITH_JAX)
        assert result.returncode == 0, result.stderr
        assert "Peak Memory: " in result.stdout and "Alerts: 1" in result.stdout
        written = json.loads(file.read_text())
        assert max(written["memory_usage"]) == written["peak_memory"] * unit
        assert len(written["memory_usage"]) == written["history_retained_samples"] > 1
        alerts = written["alerts"]
        assert (alerts if name == "jaxmemprof" else len(alerts)) == 1
    assert written["memory_source"] == "process_rss" and not written["device_memory_available"]


def test_jax_keeps_as_many_samples_as_asked(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    result = run(
        *("monitor", "--duration", "1", "--interval", "0.01", "--max-history", "5"),
        *("--output", file),
        name="jaxmemprof",
        env=WITH_JAX,
    )
    assert result.returncode == 0, result.stderr
    written = json.loads(file.read_text())
    assert written["history_window_limit"] == len(written["memory_usage"]) == 5
    assert written["history_dropped_samples"] > 0


def test_jax_track_ends_with_its_files_whole(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(
                *program("jaxmemprof"),
                "track",
                "--interval",
                "0.02",
                "--device",
                "cpu",
                "--profile",
            ),
            *("--output", tmp_path / "out.json", "--telemetry-sink-dir", tmp_path / "sink"),
            *("--oom-flight-recorder", "--oom-dump-dir", tmp_path / "dumps", "--job-id", "j7"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=WITH_JAX,
    )
    wait_until(lambda: recorded_since(tmp_path / "sink") > 1 or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Tracking Summary:" in out and "save_device_profile_on_stop=True" in err
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert session.summary.status == "completed" and session.summary.job_id == "j7"
    assert session.summary.source == "stormlog.jax.tracker"
    assert json.loads((tmp_path / "out.json").read_text())["events"]
    assert not (tmp_path / "dumps").exists()


def test_jax_selectors_are_checked_before_anything_starts() -> None:
    for device, text in (("tpu", "from outside"), ("x", "cpu, gpu, tpu, metal")):
        result = run("monitor", "--device", device, name="jaxmemprof", env=WITH_JAX)
        assert result.returncode == 1 and text in result.stderr


def test_analyze_says_what_a_file_shows(tmp_path: Path) -> None:
    usage = [100.0 + 5 * step for step in range(40)]
    common = {"peak_memory": 295.0, "average_memory": 3.7091818009578996, "duration": 4.0}
    common["timestamps"] = [step / 10 for step in range(40)]  # type: ignore[assignment]
    for name, sizes in (("tfmemprof", usage), ("jaxmemprof", [int(size * MB) for size in usage])):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({**common, "memory_usage": sizes}))
        result = run(
            *("analyze", "--input", file, "--detect-leaks", "--optimize", "--visualize"),
            *("--report", tmp_path / f"{name}.txt"),
            name=name,
            cwd=tmp_path,
        )
        assert result.returncode == 0, result.stderr
        assert "Peak Memory: 295.00 MB" in result.stdout
        assert "insufficient_cleanup: Final memory 285.0MB is 2.6x initial memory" in result.stdout
        assert "Overall Score: " in result.stdout
        assert (tmp_path / f"{name}.txt").read_text() == result.stdout
        assert (tmp_path / "memory_timeline.png").read_bytes().startswith(b"\x89PNG")
        answer = run("analyze", "--input", file, "--detect-leaks", "--json", name=name)
        document = json.loads(answer.stdout)
        assert document["leaks"][0]["type"] == "monotonic_increase"
        assert document["samples"] == 40 and document["optimization"] is None
        assert document["average_memory_mb"] == common["average_memory"]  # all digits


def test_analyze_refuses_what_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "text.json").write_text("no")
    for name, text in (
        ("other.json", "no 'memory_usage'"),
        ("text.json", "is not a JSON document"),
        ("none.json", "cannot read"),
    ):
        result = run("analyze", "--input", tmp_path / name, name="jaxmemprof")
        assert result.returncode == 1 and text in result.stderr, result.stderr


def test_info_names_the_framework() -> None:
    for name, framework in (("tfmemprof", "TensorFlow"), ("jaxmemprof", "JAX")):
        result = run("info", name=name)
        assert result.returncode == 0
        assert result.stdout.startswith(f"{framework} Stormlog - System Information\n")
