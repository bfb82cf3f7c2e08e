"""TensorFlow's trackers and profilers, over a stand-in for TensorFlow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stormlog import _core
from stormlog.errors import StormlogError
from stormlog.telemetry import load_telemetry_sessions, validate_telemetry_record
from stormlog.telemetry_sink import TelemetrySinkConfig
from test_examples import DOCUMENTED_KEYS

FAKE = Path(__file__).parent / "fake_tensorflow"


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.syspath_prepend(str(FAKE))
    import tensorflow

    yield tensorflow
    sys.modules.pop("tensorflow", None)


def test_the_tracker_of_a_gpu(tensorflow: ModuleType, tmp_path: Path, wait_until) -> None:
    from stormlog.tensorflow import TensorFlowMemoryTracker

    tensorflow.STATE["gpus"] = ["GPU:0"]
    tracker = TensorFlowMemoryTracker(
        sampling_interval=0.01,
        alert_threshold_mb=150,
        telemetry_sink_config=TelemetrySinkConfig(root_dir=tmp_path / "sink"),
    )
    heard: list[dict[str, object]] = []
    tracker.add_alert_callback(heard.append)
    assert tracker.device == "/GPU:0"
    tracker.start_tracking()
    with tracker.phase("fit"):
        wait_until(lambda: len(tracker.memory_usage) > 2)
        tensorflow.STATE["current"] = 200 << 20
        wait_until(lambda: len(tracker.memory_usage) > 10 and heard)
    result = tracker.stop_tracking()
    assert result.peak_memory == 200.0 and result.min_memory == 100.0
    assert len(heard) == len(result.alerts_triggered) == 1
    assert heard[0]["message"] == "Memory usage 200.0 MB exceeds threshold 150.0 MB"
    for record in result.events:
        validate_telemetry_record(record)
        assert record["collector"] == "stormlog.tensorflow.memory_tracker"
    statistics = tracker.get_statistics()
    assert statistics["peak_memory_mb"] == 200.0 and statistics["alert_count"] == 1
    assert statistics["history_retained_samples"] == len(result.memory_usage)
    assert statistics.keys() >= DOCUMENTED_KEYS
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert session.summary.source == "stormlog.tensorflow.tracker"


def test_without_a_gpu_the_process_is_tracked(tensorflow: ModuleType, wait_until) -> None:
    from stormlog.tensorflow.tracker import MemoryTracker, MemoryWatchdog

    with MemoryTracker(sampling_interval=0.01) as tracker:
        wait_until(lambda: tracker.memory_usage)
    assert tracker.device == "/CPU:0"
    assert tracker.get_current_memory() > 1
    cleaned: list[int] = []
    watchdog = MemoryWatchdog()
    watchdog.add_cleanup_callback(lambda: cleaned.append(1))
    watchdog.force_cleanup()
    assert cleaned == [1]


def test_a_process_that_cannot_be_read_has_no_samples(
    tensorflow: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait_until
) -> None:
    from stormlog.tensorflow.tracker import MemoryTracker

    monkeypatch.setattr(_core, "process_sizes", lambda: None)
    tracker = MemoryTracker(
        sampling_interval=0.01, telemetry_sink_config=TelemetrySinkConfig(root_dir=tmp_path)
    )
    with tracker:
        wait_until(lambda: tracker.get_events("collector_degraded"))
    assert tracker.memory_usage == []
    with pytest.raises(StormlogError, match="/proc/self/statm"):
        tracker.get_current_memory()
    (session,) = load_telemetry_sessions(tmp_path)
    samples = [event for event in session.events if event.event_type == "sample"]
    assert samples == [] and session.events


def test_the_profiler(tensorflow: ModuleType) -> None:
    from stormlog.tensorflow import TFMemoryProfiler, context_profiler

    tensorflow.STATE["gpus"] = ["GPU:0"]
    profiler = TFMemoryProfiler(enable_tensor_tracking=True)

    @profiler.profile_function
    def grow() -> int:
        tensorflow.STATE["current"] += 50 << 20
        return 5

    assert grow() == 5
    with profiler.profile_context("block"):
        pass
    result = profiler.get_results()
    assert result.function_profiles["grow"]["total_memory_used"] == 50.0
    assert json.dumps(result.to_dict())
    context_profiler.set_global_profiler(profiler)
    with context_profiler.profile_context("again"):
        pass
    assert context_profiler.get_profile_summaries(limit=1)[0]["name"] == "again"
    profiler.reset()
    assert profiler.get_results().snapshots == []


def test_without_tensorflow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from stormlog.tensorflow.tracker import MemoryTracker

    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match="pip install") as raised:
        MemoryTracker()
    assert isinstance(raised.value, StormlogError)


def test_diagnose_and_plots(tensorflow: ModuleType, tmp_path: Path) -> None:
    from stormlog.tensorflow import TensorFlowVisualizer, TFMemoryProfiler
    from stormlog.tensorflow.diagnose import (
        build_diagnostic_summary,
        run_diagnose,
        run_timeline_capture,
    )

    tensorflow.STATE.update(gpus=["GPU:0"], current=100 << 20)
    directory, code = run_diagnose(str(tmp_path / "bundle"), None, 0.1, 0.02, "train.py")
    manifest = json.loads((directory / "manifest.json").read_text())
    assert (code, manifest["session"]["source"]) == (0, "tfmemprof diagnose")
    summary, is_risk = build_diagnostic_summary("/GPU:0")
    assert summary["allocated_bytes"] == 100 << 20 and not is_risk
    # TensorFlow does not report the size of its device.
    assert summary["total_bytes"] is None and summary["utilization_ratio"] is None
    assert set(run_timeline_capture(None, 0.1, 0.02)["allocated"]) == {float(100 << 20)}
    profiler = TFMemoryProfiler(enable_tensor_tracking=False)
    with profiler.profile_context("step"):
        pass
    plots = TensorFlowVisualizer(style="dark", figure_size=(6, 4))
    plots.save_plots(profiler.get_results(), str(tmp_path / "plots"))
    assert len(list((tmp_path / "plots").iterdir())) == 3
    plots.export_data(profiler.get_results(), str(tmp_path / "out.json"), format="json")
    assert [
        row["name"] for row in json.loads((tmp_path / "out.json").read_text())["snapshots"]
    ] == [
        "step_start",
        "step_end",
    ]
    with pytest.raises(ValueError, match="csv or json"):
        plots.export_data(profiler.get_results(), "x", format="xml")
