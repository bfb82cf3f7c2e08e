"""Stormlog: a flight recorder for accelerator memory in machine-learning training.

Names are imported on first use, so that ``import stormlog`` is cheap and imports no framework.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers recognize this name even if it is not imported. Importing it from ``typing`` would
# take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._steps import step
    from ._track import track
    from .analyzer import GapFinding, MemoryAnalyzer
    from .comparison import Comparison, compare, save_baseline
    from .context_profiler import profile_context, profile_function
    from .cpu_profiler import CPUMemoryProfiler, CPUMemoryTracker
    from .device_collectors import (
        DeviceMemoryCollector,
        DeviceMemorySample,
        build_device_memory_collector,
        detect_torch_runtime_backend,
    )
    from .diagnosis import Report, analyze
    from .oom_flight_recorder import (
        OOMExceptionClassification,
        OOMFlightRecorder,
        OOMFlightRecorderConfig,
        classify_oom_exception,
    )
    from .profiler import GPUMemoryProfiler, MemorySnapshot, ProfileResult
    from .telemetry import (
        TelemetryEventV2,
        load_telemetry_events,
        resolve_distributed_identity,
        telemetry_event_from_record,
        telemetry_event_to_dict,
        validate_telemetry_record,
    )
    from .timeline_markers import (
        TimelineMarker,
        derive_session_timeline_markers,
        derive_timeline_markers,
        timeline_marker_to_dict,
    )
    from .tracker import MemoryTracker
    from .utils import convert_bytes, format_bytes, get_gpu_info
    from .visualizer import MemoryVisualizer

    __version__: str

__all__ = [
    "CPUMemoryProfiler",
    "CPUMemoryTracker",
    "Comparison",
    "DeviceMemoryCollector",
    "DeviceMemorySample",
    "GPUMemoryProfiler",
    "GapFinding",
    "MemoryAnalyzer",
    "MemorySnapshot",
    "MemoryTracker",
    "MemoryVisualizer",
    "OOMExceptionClassification",
    "OOMFlightRecorder",
    "OOMFlightRecorderConfig",
    "ProfileResult",
    "Report",
    "TelemetryEventV2",
    "TimelineMarker",
    "analyze",
    "build_device_memory_collector",
    "classify_oom_exception",
    "compare",
    "convert_bytes",
    "derive_session_timeline_markers",
    "derive_timeline_markers",
    "detect_torch_runtime_backend",
    "format_bytes",
    "get_gpu_info",
    "load_telemetry_events",
    "profile_context",
    "profile_function",
    "resolve_distributed_identity",
    "save_baseline",
    "step",
    "telemetry_event_from_record",
    "telemetry_event_to_dict",
    "timeline_marker_to_dict",
    "track",
    "validate_telemetry_record",
]

_MODULES = {
    "CPUMemoryProfiler": "cpu_profiler",
    "CPUMemoryTracker": "cpu_profiler",
    "Comparison": "comparison",
    "DeviceMemoryCollector": "device_collectors",
    "DeviceMemorySample": "device_collectors",
    "GPUMemoryProfiler": "profiler",
    "GapFinding": "analyzer",
    "MemoryAnalyzer": "analyzer",
    "MemorySnapshot": "profiler",
    "MemoryTracker": "tracker",
    "MemoryVisualizer": "visualizer",
    "OOMExceptionClassification": "oom_flight_recorder",
    "OOMFlightRecorder": "oom_flight_recorder",
    "OOMFlightRecorderConfig": "oom_flight_recorder",
    "ProfileResult": "profiler",
    "Report": "diagnosis",
    "TelemetryEventV2": "telemetry",
    "TimelineMarker": "timeline_markers",
    "analyze": "diagnosis",
    "build_device_memory_collector": "device_collectors",
    "classify_oom_exception": "oom_flight_recorder",
    "compare": "comparison",
    "convert_bytes": "utils",
    "derive_session_timeline_markers": "timeline_markers",
    "derive_timeline_markers": "timeline_markers",
    "detect_torch_runtime_backend": "device_collectors",
    "format_bytes": "utils",
    "get_gpu_info": "utils",
    "load_telemetry_events": "telemetry",
    "profile_context": "context_profiler",
    "profile_function": "context_profiler",
    "resolve_distributed_identity": "telemetry",
    "save_baseline": "comparison",
    "step": "_steps",
    "telemetry_event_from_record": "telemetry",
    "telemetry_event_to_dict": "telemetry",
    "timeline_marker_to_dict": "timeline_markers",
    "track": "_track",
    "validate_telemetry_record": "telemetry",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("._core", __name__).VERSION
    elif name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
