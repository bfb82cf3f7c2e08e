"""JAX's trackers and profilers, over a stand-in for JAX; `benches/proofs/jax_proof.py` has the real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stormlog import _oom_hooks, classify_oom_exception
from stormlog.errors import StormlogError
from stormlog.telemetry import load_telemetry_sessions, validate_telemetry_record
from stormlog.telemetry_sink import TelemetrySinkConfig
from test_examples import DOCUMENTED_KEYS

FAKE = Path(__file__).parent / "fake_jax"
MB = 1 << 20


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.syspath_prepend(str(FAKE))
    import jax

    yield jax
    sys.modules.pop("jax", None)


@pytest.fixture
def gpu(jax: ModuleType) -> Any:
    jax.DEVICES[:] = [jax.Device("gpu")]
    return jax.DEVICES[0]


def test_the_tracker_of_a_gpu(gpu: Any, tmp_path: Path, wait_until) -> None:
    from stormlog.jax import MemoryTracker

    tracker = MemoryTracker(
        sampling_interval=0.01,
        alert_threshold_mb=150,
        telemetry_sink_config=TelemetrySinkConfig(root_dir=tmp_path / "sink"),
    )
    heard: list[dict[str, object]] = []
    tracker.add_alert_callback(heard.append)
    tracker.start_tracking()
    with tracker.phase("fit"):
        wait_until(lambda: len(tracker.timestamps) > 2)
        gpu.stats = {**gpu.stats, "bytes_in_use": 200 * MB, "peak_bytes_in_use": 700 * MB}
        wait_until(lambda: len(tracker.timestamps) > 10 and heard)
    result = tracker.stop_tracking()
    assert result.peak_memory_mb == 200.0 and result.min_memory_bytes == 100 * MB
    assert (result.memory_source, result.device_memory_available) == ("jax_device_stats", True)
    assert len(heard) == result.alert_count == 1
    assert heard[0]["message"] == "Memory usage 200.0 MB exceeds threshold 150.0 MB"
    for record in result.telemetry_events:
        validate_telemetry_record(record)
        assert record["collector"] == "stormlog.jax.memory_tracker"
    sample = [one for one in result.telemetry_events if one["event_type"] == "sample"][-1]
    assert sample["allocator_reserved_bytes"] == sample["device_used_bytes"] == 400 * MB
    assert sample["device_total_bytes"] == 1000 * MB and sample["device_free_bytes"] == 600 * MB
    assert sample["device_id"] == 0 and sample["metadata"]["backend"] == "gpu"
    # What the allocator reached between two samples is a peak of its own.
    peaks = [one for one in result.telemetry_events if one["event_type"] == "peak"]
    assert any("700.00 MB" in one["context"] for one in peaks), peaks
    statistics = tracker.get_statistics()
    assert statistics["peak_memory_mb"] == 200.0 and statistics["alert_count"] == 1
    assert statistics.keys() >= DOCUMENTED_KEYS
    (session,) = load_telemetry_sessions(tmp_path / "sink")
    assert session.summary.source == "stormlog.jax.tracker"


@pytest.mark.parametrize(
    ("change", "reserved", "guessed", "total"),
    [
        ({}, 400, False, 1000),
        # A pool as large as the limit was taken at the start, and does not show what is needed.
        ({"pool_bytes": 1000 * MB}, 100, True, 1000),
        ({"pool_bytes": None}, 100, True, 1000),
        ({"pool_bytes": None, "bytes_reserved": 300 * MB}, 300, False, 1000),
        ({"bytes_limit": None}, 400, False, None),
        # The counters of an H200 with a growing pool, and with the allocator of CUDA.
        ({"pool_bytes": 100 * MB + 2097152}, 102, False, 1000),
        ({"pool_bytes": None, "largest_free_block_bytes": 0}, 100, True, 1000),
    ],
)
def test_what_is_reserved(
    gpu: Any, change: dict[str, Any], reserved: int, guessed: bool, total: int | None
) -> None:
    from stormlog.jax._device import JaxCollector, resolve

    gpu.stats = {key: value for key, value in {**gpu.stats, **change}.items() if value is not None}
    result: Any = JaxCollector(*resolve(0)).sample_with_diagnostics()
    assert result.sample.allocated_bytes == 100 * MB
    assert result.sample.reserved_bytes == reserved * MB
    assert result.sample.total_bytes == (None if total is None else total * MB)
    assert result.metadata.get("allocator_reserved_approximate", False) is guessed


def test_a_gpu_that_does_not_tell_is_unknown_and_not_zero(gpu: Any, wait_until) -> None:
    from stormlog.jax import MemoryTracker

    gpu.stats = None
    with MemoryTracker(sampling_interval=0.01) as tracker:
        wait_until(lambda: tracker.get_events("collector_degraded"))
    result = tracker.get_tracking_results()
    assert (result.memory_source, result.memory_usage) == ("unavailable", [])
    assert result.device_memory_unavailable_reason == "JAX device does not expose bytes_in_use"


def test_on_the_cpu_the_process_is_tracked(jax: ModuleType, wait_until) -> None:
    from stormlog.jax import MemoryTracker, MemoryWatchdog

    with MemoryTracker(sampling_interval=0.01) as tracker:
        wait_until(lambda: tracker.timestamps)
    result = tracker.get_tracking_results()
    assert (result.memory_source, result.device_memory_available) == ("process_rss", False)
    assert tracker.get_current_memory() > 1
    assert result.telemetry_events[-1]["device_id"] == -1
    cleaned: list[int] = []
    watchdog = MemoryWatchdog()
    watchdog.add_cleanup_callback(lambda: cleaned.append(1))
    watchdog.force_cleanup(aggressive=True)
    assert cleaned == jax.CLEARED == [1]


def test_running_out_leaves_a_bundle_with_a_profile(gpu: Any, tmp_path: Path) -> None:
    from stormlog.jax import MemoryTracker

    tracker = MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path / "oom"))
    with tracker, pytest.raises(RuntimeError), tracker.capture_oom("step 7"):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4.0GiB")
    assert tracker.last_oom_dump_path is not None
    bundle = Path(tracker.last_oom_dump_path)
    metadata = json.loads((bundle / "metadata.json").read_text())
    assert (metadata["backend"], metadata["context"]) == ("jax", "step 7")
    assert metadata["custom_metadata"]["sample_allocated_bytes"] == 100 * MB
    assert list(bundle.glob("jax-device-memory-*.prof"))
    assert tracker.trigger_oom_dump(ValueError("something else")) is None


def test_an_error_of_a_tpu_makes_a_bundle(gpu: Any, tmp_path: Path) -> None:
    from stormlog.jax import MemoryTracker

    # The text of this error mentions no memory that stormlog 0.3.9 recognizes.
    error = RuntimeError("RESOURCE_EXHAUSTED: Attempting to allocate 3.91G. That was not possible.")
    assert not classify_oom_exception(error).is_oom
    tracker = MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path / "oom"))
    with tracker:
        assert _oom_hooks.on_raised(error)
    assert tracker.last_oom_dump_path is not None
    metadata = json.loads((Path(tracker.last_oom_dump_path) / "metadata.json").read_text())
    assert metadata["reason"] == "message_pattern:resource_exhausted"
    assert metadata["custom_metadata"]["requested_bytes"] == int(3.91 * 2**30)


def test_a_profile_on_stop(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stormlog.jax import MemoryTracker

    monkeypatch.chdir(tmp_path)
    tracker = MemoryTracker(save_device_profile_on_stop=True)
    tracker.start_tracking()
    path = tracker.stop_tracking().device_memory_profile_path
    assert path is not None and Path(path).parent == tmp_path


def test_the_profiler(gpu: Any) -> None:
    from stormlog import jax as door
    from stormlog.jax import context_profiler

    profiler = door.JAXMemoryProfiler()

    @profiler.profile_function(name="grow")
    def grow() -> int:
        gpu.stats["bytes_in_use"] += 50 * MB
        return 5

    assert grow() == 5
    with profiler.profile_context("block") as before:
        assert before.device_memory_mb == 150.0
    result = profiler.get_results()
    assert result.function_profiles["grow"]["total_memory_delta"] == 50 * MB
    assert (result.peak_memory_mb, result.device_memory_available) == (150.0, True)
    assert json.dumps(result.to_dict())
    context_profiler.set_global_profiler(profiler)
    door.ProfiledFunction(grow, name="again")()
    assert [row["name"] for row in context_profiler.get_profile_summaries()][-1] == "again"
    steps = door.JAXProfiler()
    steps.profile_training(lambda batch: batch, [1, 2, 3], epochs=2, steps_per_epoch=2)
    steps.profile_inference(lambda batch: batch, [1, 2])
    profiles = steps.get_results().function_profiles
    assert profiles["step_1"]["calls"] == 2 and "inference_batch_1" in profiles


def test_selectors(jax: ModuleType) -> None:
    from stormlog.jax.utils import get_device_info, normalize_jax_backend, resolve_jax_device

    jax.DEVICES[:] = [jax.Device("gpu", 3), jax.Device("gpu", 4), jax.Device("cpu")]
    assert [resolve_jax_device(one)[1] for one in (1, "1", "gpu", "cpu")] == [1, 1, 3, 0]
    for wrong in (9, -1, "tpu", "x", ""):
        with pytest.raises(ValueError, match="JAX (device|backend)"):
            resolve_jax_device(wrong)
        assert "error" in get_device_info(wrong)
    assert normalize_jax_backend(" CUDA ") == "gpu" and normalize_jax_backend("?") == "unknown"


def test_analysis_plots_and_exports(gpu: Any, tmp_path: Path) -> None:
    from stormlog.jax.analyzer import MemoryAnalyzer
    from stormlog.jax.profiler import JAXMemoryProfiler
    from stormlog.jax.tracker import TrackingResult
    from stormlog.jax.visualizer import MemoryVisualizer

    usage = [(100 + 5 * step) * MB for step in range(40)]
    times = [step / 10 for step in range(40)]
    result = TrackingResult(0.0, 4.0, 40, usage[-1], 0, 0, 0, memory_usage=usage, timestamps=times)
    leaks = MemoryAnalyzer().detect_memory_leaks(result)
    assert [leak["type"] for leak in leaks] == ["monotonic_increase", "insufficient_cleanup"]
    profiler = JAXMemoryProfiler()
    for _ in range(101):
        with profiler.profile_context("step"):
            pass
    report = MemoryAnalyzer().score_optimization(profiler.get_results())
    assert any("jax.jit" in advice for advice in report["top_recommendations"])
    assert MemoryAnalyzer().analyze_efficiency(profiler.get_results()) <= 1
    plots = MemoryVisualizer()
    plots.save_plots(profiler.get_results(), str(tmp_path / "plots"))
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        "timeline.png",
        "function_comparison.png",
        "heatmap.png",
    }
    plots.export_data(result, str(tmp_path / "usage.csv"))
    assert (tmp_path / "usage.csv").read_text().splitlines()[:2] == [
        "timestamp,device_memory_mb",
        "0.0,100.0",
    ]
    assert plots.plot_memory_timeline(object()) is None


def test_diagnose(gpu: Any, tmp_path: Path) -> None:
    from stormlog.jax.diagnose import build_diagnostic_summary, run_diagnose, run_timeline_capture

    directory, code = run_diagnose(str(tmp_path / "bundle"), 0, 0.1, 0.02, "train.py")
    assert code == 0
    manifest = json.loads((directory / "manifest.json").read_text())
    assert "native_history_enabled" not in manifest
    environment = json.loads((directory / "environment.json").read_text())
    assert environment["device"]["memory_stats"]["bytes_in_use"] == 100 * MB
    gpu.stats["bytes_in_use"] = 900 * MB
    summary, is_risk = build_diagnostic_summary(0)
    assert is_risk and summary["risk_flags"]["high_utilization"]
    assert (summary["total_bytes"], summary["allocated_bytes"]) == (1000 * MB, 900 * MB)
    captured = run_timeline_capture("gpu", 0.1, 0.02)
    assert captured["device_memory_available"] and set(captured["allocated"]) == {900.0 * MB}


def test_without_jax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from stormlog.jax.tracker import MemoryTracker
    from stormlog.jax.utils import get_system_info, validate_jax_environment

    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match="pip install") as raised:
        MemoryTracker()
    assert isinstance(raised.value, StormlogError)
    assert get_system_info()["jax_version"] == "Not installed"
    assert validate_jax_environment()["issues"] == ["JAX not installed"]


def test_importing_the_door_imports_no_jax() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(FAKE)!r}); import stormlog.jax, stormlog.jax.tracker,"
        " stormlog.jax.utils, stormlog.jax.visualizer; assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_holds_memory(tmp_path: Path) -> None:
    from stormlog.jax.attributed_viz import format_bytes, render_jax_attributed_html
    from stormlog.jax.pprof_parser import parse_jax_memory_profile

    # Written by JAX 0.10 on a CPU, with one array of 4 MB held by `keep`.
    profile = parse_jax_memory_profile(str(Path(__file__).parent / "jax_device_memory.prof"))
    largest = max(profile["samples"], key=lambda sample: sample["values"][-1])
    assert largest["values"] == [1, 4_000_000]
    assert largest["stack"][:2] == ["<module>", "keep"]
    page = render_jax_attributed_html(profile, str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_text() == page and ">keep<" in page
    assert format_bytes(1234.0) == "1.21KB"
    (tmp_path / "other").write_text("no profile")
    with pytest.raises(ValueError, match="not a device memory profile"):
        parse_jax_memory_profile(str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError):
        parse_jax_memory_profile(str(tmp_path / "none"))
