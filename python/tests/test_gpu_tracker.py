"""The tracker of a device, over a stand-in for PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from conftest import FAKE_TORCH
from stormlog import _oom_hooks
from stormlog.device_collectors import (
    CudaDeviceCollector,
    DeviceMemoryCollector,
    DeviceMemorySample,
    build_device_memory_collector,
    detect_torch_runtime_backend,
)
from stormlog.errors import StormlogError
from stormlog.profiler import GPUMemoryProfiler
from stormlog.telemetry import validate_telemetry_record
from stormlog.tracker import MemoryTracker, MemoryWatchdog, TrackingEvent
from waiting import PATIENCE_S

MIB = 1 << 20


class PlainCollector(CudaDeviceCollector):
    """Reads through PyTorch's public functions only."""

    def torch_functions(self) -> None:
        return None


@pytest.fixture(params=["raw", "public"])
def tracker(request: pytest.FixtureRequest, torch: ModuleType) -> MemoryTracker:
    collector = None if request.param == "raw" else PlainCollector()
    return MemoryTracker(sampling_interval=0.005, collector=collector)


def test_a_session(tracker: MemoryTracker, torch: ModuleType, tmp_path: Path, wait_until) -> None:
    with tracker:
        wait_until(lambda: tracker.get_events("sample"))
        # One after the other: a sample may fall between the two.
        torch.STATE["reserved"] = 80 * MIB
        wait_until(lambda: tracker.get_events("sample", 1)[0].device_used == 80 * MIB)
        torch.STATE["allocated"] = 70 * MIB
        wait_until(lambda: tracker.get_events("allocation"))
        torch.STATE["allocated"] = 60 * MIB
        wait_until(lambda: tracker.get_events("deallocation"))
    (allocation,) = tracker.get_events("allocation")
    assert allocation.context == "Memory allocated: 20.00 MB"
    assert allocation.device_used == 80 * MIB and allocation.active_memory == 70 * MIB
    statistics = tracker.get_statistics()
    assert statistics["peak_memory"] == 70 * MIB
    assert statistics["memory_utilization_percent"] == 8.0
    assert statistics["total_allocation_bytes"] == 20 * MIB
    assert tracker.total_memory == 1000 * MIB
    tracker.export_events(str(tmp_path / "events.json"), "json")
    for record in json.loads((tmp_path / "events.json").read_text()):
        validate_telemetry_record(record)
        assert record["collector"] == "stormlog.cuda_tracker"
        assert record["metadata"]["collector_health_status"] == "healthy"


def test_memory_outside_the_allocator_is_seen(
    tracker: MemoryTracker, torch: ModuleType, wait_until
) -> None:
    with tracker:
        wait_until(lambda: tracker.get_events("sample"))
        torch.STATE["outside"] = 500 * MIB
        wait_until(lambda: tracker.get_events("sample", 1)[0].device_used == 560 * MIB)
    last = tracker.get_events("sample")[-1]
    assert last.device_used - last.memory_reserved == 500 * MIB


def test_a_peak_between_samples_is_kept(torch: ModuleType, wait_until) -> None:
    tracker = MemoryTracker(sampling_interval=0.005)
    with tracker:
        wait_until(lambda: len(tracker.get_events("sample")) > 2)
        torch.STATE["peak"] = 400 * MIB
        wait_until(lambda: len(tracker.get_events("peak")) > 1)
    assert tracker.get_statistics()["peak_memory"] == 400 * MIB
    assert tracker.get_events("peak")[-1].metadata["peak_bytes"] == 400 * MIB


def test_failures_degrade_and_recover(
    tracker: MemoryTracker, torch: ModuleType, wait_until
) -> None:
    with tracker:
        wait_until(lambda: tracker.get_events("sample"))
        torch.STATE["stats_error"] = "no stats"
        wait_until(lambda: tracker.get_events("collector_degraded"))
        torch.STATE["stats_error"] = None
        wait_until(lambda: tracker.get_events("collector_recovered"))
        torch.STATE["core_error"] = "cuda exploded"
        wait_until(lambda: len(tracker.get_events("collector_degraded")) == 2)
        assert tracker.get_statistics()["current_memory_allocated"] is None
        assert tracker.get_statistics()["collector_health_status"] == "unhealthy"
        torch.STATE["core_error"] = None
        wait_until(lambda: len(tracker.get_events("collector_recovered")) == 2)
    partial, failed = tracker.get_events("collector_degraded")
    assert partial.metadata["collector_partial_fields"] == [
        "allocator_active_bytes",
        "allocator_inactive_bytes",
    ]
    assert failed.metadata["collector_degradation_reason"] == "cuda exploded"
    assert failed.metadata["collector_retry_delay_s"] == 1.0


def test_counters_that_the_allocator_lacks_are_unknown(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: {"active_bytes.all.current": 7})
    result = CudaDeviceCollector().sample_with_diagnostics()
    assert result.sample is not None
    assert result.sample.active_bytes == 7 and result.sample.inactive_bytes is None
    assert result.partial_fields == ("allocator_inactive_bytes",)


def test_alerts_call_back_once_and_the_watchdog_cleans(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch, wait_until
) -> None:
    emptied: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    tracker = MemoryTracker(sampling_interval=0.005)
    heard: list[TrackingEvent] = []
    tracker.add_alert_callback(heard.append)
    tracker.add_alert_callback(lambda event: 1 / 0)
    watchdog = MemoryWatchdog(tracker)
    torch.STATE["allocated"] = torch.STATE["reserved"] = 970 * MIB
    with tracker:
        wait_until(lambda: len(tracker.get_events("sample")) > 10)
        wait_until(lambda: watchdog.cleanup_count == 1)
        # A cleanup is counted after its event is recorded, so the event must be there by now.
        assert len(tracker.get_events("cleanup")) == 1
        watchdog.force_cleanup()
    assert [event.event_type for event in heard] == ["critical"]
    assert tracker.get_alerts() == heard
    assert len(emptied) == 3
    contexts = [event.context for event in tracker.get_events("cleanup")]
    assert contexts == ["Performed aggressive memory cleanup", "Performed standard memory cleanup"]
    assert watchdog.get_cleanup_stats()["cleanup_count"] == 2


def test_thresholds(torch: ModuleType, wait_until) -> None:
    tracker = MemoryTracker(sampling_interval=0.005)
    tracker.set_threshold("memory_warning_percent", 1)
    tracker.thresholds["fragmentation_threshold"] = 0.1
    with pytest.raises(ValueError, match="Unknown threshold: nope"):
        tracker.set_threshold("nope", 1)
    with tracker:
        wait_until(lambda: len(tracker.get_alerts()) == 2)
    assert {alert.context for alert in tracker.get_alerts()} == {
        "WARNING: Memory usage at 5.0%",
        "High fragmentation: 16.7%",
    }


def test_an_oom_leaves_a_bundle_without_any_code(torch: ModuleType, tmp_path: Path) -> None:
    tracker = MemoryTracker(
        sampling_interval=0.005,
        enable_oom_flight_recorder=True,
        oom_dump_dir=str(tmp_path / "dumps"),
    )
    with tracker:
        with pytest.raises(torch.OutOfMemoryError):
            torch.run_out_of_memory()
        (bundle,) = (tmp_path / "dumps").iterdir()
        metadata = json.loads((bundle / "metadata.json").read_text())
        assert metadata["reason"] == "torch.cuda.OutOfMemoryError"
        assert metadata["custom_metadata"]["requested_bytes"] == 8 << 30
        assert metadata["custom_metadata"]["tracker_stats"]["total_events"] > 0
        events = json.loads((bundle / "events.json").read_text())
        assert events[-1]["metadata"]["oom_reason"] == "torch.cuda.OutOfMemoryError"
        # What the program adds about an error in `capture_oom` goes into the bundle of that error.
        with (
            pytest.raises(torch.OutOfMemoryError),
            tracker.capture_oom("step 7", metadata={"batch": 8, "api_key": "hunter2"}),
        ):
            torch.run_out_of_memory()
    bundles = sorted((tmp_path / "dumps").iterdir())
    assert len(bundles) == 2
    text = (bundles[1] / "metadata.json").read_text()
    metadata = json.loads(text)
    assert metadata["context"] == "step 7" and metadata["custom_metadata"]["batch"] == 8
    assert metadata["exception_message"].startswith(
        "CUDA out of memory. Tried to allocate 8.00 GiB"
    )
    assert "hunter2" not in text
    assert tracker.last_oom_dump_path == str(bundles[1])


def recorded(tracker: MemoryTracker) -> int:
    """The number of out-of-memory errors that a tracker has recorded."""
    return len(tracker.get_events("error"))


def test_an_uncaught_oom_is_recorded_for_its_device_only(
    torch: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    trackers = [
        MemoryTracker(
            device=f"cuda:{index}",
            enable_oom_flight_recorder=True,
            oom_dump_dir=str(tmp_path / str(index)),
        )
        for index in range(3)
    ]
    with trackers[0], trackers[1], trackers[2]:
        try:
            torch.run_out_of_memory()
        except torch.OutOfMemoryError as error:
            _oom_hooks._on_uncaught(error)
        assert [recorded(tracker) for tracker in trackers] == [1, 0, 0]
        # No framework has said of which device these are.
        _oom_hooks._on_uncaught(RuntimeError("CUDA error: out of memory"))
        assert [recorded(tracker) for tracker in trackers] == [1, 1, 0]
        _oom_hooks._on_uncaught(
            RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes")
        )
        assert [recorded(tracker) for tracker in trackers] == [1, 1, 0]


def test_an_error_of_another_library_is_not_the_one_that_was_caught_before(
    torch: ModuleType, tmp_path: Path
) -> None:
    with MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)) as tracker:
        with pytest.raises(torch.OutOfMemoryError):
            torch.run_out_of_memory()
        _oom_hooks._on_uncaught(RuntimeError("CUDA error: out of memory"))
        assert recorded(tracker) == 2
        # PyTorch's own error of another size is not the one that was announced.
        error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7.00 GiB.")
        tracker.handle_exception(error)
        assert recorded(tracker) == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_a_later_error_with_the_same_text_and_address_is_recorded(
    torch: ModuleType, tmp_path: Path
) -> None:
    with MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)) as tracker:
        first = RuntimeError("CUDA error: out of memory")
        _oom_hooks._on_uncaught(first)
        address = id(first)
        del first
        others = []
        while id(later := RuntimeError("CUDA error: out of memory")) != address:
            others.append(later)
        _oom_hooks._on_uncaught(later)
        _oom_hooks._on_uncaught(later)
        assert recorded(tracker) == 2


def test_an_error_that_ends_a_block_and_the_program_is_recorded_once(
    torch: ModuleType, tmp_path: Path
) -> None:
    with MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir=str(tmp_path)) as tracker:
        try:
            with tracker.capture_oom("step 7"):
                torch.run_out_of_memory()
        except torch.OutOfMemoryError as error:
            _oom_hooks._on_uncaught(error)
        assert recorded(tracker) == 1
    (bundle,) = tmp_path.iterdir()
    assert json.loads((bundle / "metadata.json").read_text())["context"] == "step 7"


def test_an_uncaught_oom_leaves_a_bundle_and_no_environment(tmp_path: Path) -> None:
    script = """
        import sys
        import torch
        torch._C = None
        import stormlog
        tracker = stormlog.track(sys.argv[1])
        raise RuntimeError("HIP out of memory")
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "run")],
        env={"PYTHONPATH": str(FAKE_TORCH), "MY_SECRET": "hunter2", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert result.returncode == 1 and "HIP out of memory" in result.stderr
    (bundle,) = (tmp_path / "run" / "oom_dumps").iterdir()
    text = "".join(path.read_text() for path in bundle.iterdir())
    assert "uncaught exception" in text and "hunter2" not in text


def test_a_collector_of_the_users_own(wait_until) -> None:
    import stormlog

    class Mine(DeviceMemoryCollector):
        def name(self) -> str:
            return "mine"

        def is_available(self) -> bool:
            return True

        def sample(self) -> DeviceMemorySample:
            return DeviceMemorySample(5, 6, 7, 8, 15, None, None, 3)

        def capabilities(self) -> dict[str, object]:
            return {
                "backend": "mine",
                "supports_device_total": True,
                "supports_device_free": True,
                "sampling_source": "mine",
                "telemetry_collector": "mine.tracker",
            }

    with MemoryTracker(collector=Mine(), sampling_interval=0.005) as tracker:
        wait_until(lambda: tracker.get_events("sample"))
    assert tracker.get_events("sample")[0].device_id == 3
    with stormlog.track(collector=lambda: {"allocated_bytes": 9}, interval=0.005) as tracker:
        wait_until(lambda: tracker.get_events("sample"))
    assert tracker.get_events("sample")[0].memory_allocated == 9


def test_without_a_device_the_error_says_so(torch: ModuleType) -> None:
    for device, error in (("cpu", ValueError), ("cuda:7", ValueError), ("mps", RuntimeError)):
        with pytest.raises(error) as raised:
            MemoryTracker(device=device)
        assert isinstance(raised.value, StormlogError)
    torch.STATE["available"] = False
    with pytest.raises(RuntimeError, match="No supported GPU backend"):
        MemoryTracker()
    assert detect_torch_runtime_backend() == "cpu"


def test_without_pytorch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install"):
        MemoryTracker(device="cuda")


def test_collectors_tell_what_they_cannot_read(torch: ModuleType) -> None:
    collector = build_device_memory_collector("cuda:0")
    assert collector.sample().used_bytes == 60 * MIB
    torch.STATE["core_error"] = "boom"
    result = collector.sample_with_diagnostics()
    assert result.is_core_failure and result.errors == {"core_metrics": "boom"}


def test_the_profiler(torch: ModuleType) -> None:
    profiler = GPUMemoryProfiler()

    def grow() -> None:
        torch.STATE["allocated"] += 10 * MIB

    result = profiler.profile_function(grow)
    assert result.memory_diff() == result.memory_allocated == 10 * MIB
    with pytest.raises(ZeroDivisionError), profiler.profile_context("fails"):
        1 / 0
    summary = profiler.get_summary()
    assert summary["total_functions_profiled"] == 2
    assert summary["function_summaries"]["grow"]["call_count"] == 1
    json.dumps([entry.to_dict() for entry in profiler.results])


def test_decorators_and_modules(torch: ModuleType, tmp_path: Path) -> None:
    from stormlog import context_profiler

    context_profiler.set_global_profiler(GPUMemoryProfiler())

    @context_profiler.profile_function
    def double(value: int) -> int:
        return value * 2

    @context_profiler.profile_function(name="named")
    def triple(value: int) -> int:
        return value * 3

    assert double(2) == 4 and triple(2) == 6
    with context_profiler.profile_context("block") as profiler:
        assert profiler is context_profiler.get_global_profiler()
    names = [result.function_name for result in context_profiler.get_profile_results()]
    assert names == ["double", "named", "block"]

    class Identity(torch.nn.Module):
        def forward(self, value: int) -> int:
            return value

    memory = context_profiler.MemoryProfiler()
    assert memory.wrap_module(Identity(), "layer")(5) == 5
    memory.save_results(str(tmp_path / "results.json"))
    loaded = memory.load_results(str(tmp_path / "results.json"))
    assert loaded["results"][0]["function_name"] == "layer_forward"
