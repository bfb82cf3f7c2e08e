"""Names that programs import from a module of stormlog 0.3.9 that does not define them.

A module of stormlog 0.3.9 also has the names that it imported for its own use, and programs import
some of these names from it. On access, such a name is looked up in the module that defines it. Type
checkers see only the public names of a module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# Names that every tracker module of stormlog 0.3.9 imports.
_OF_TRACKERS = {
    "phases.runtime": "PhaseHandle PhaseRecorder PhaseToken",
    "session": (
        "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SESSION_STATUS_RUNNING "
        "SessionSummary create_session_summary finalize_session_summary now_ns "
        "update_session_summary"
    ),
    "telemetry": (
        "resolve_distributed_identity telemetry_event_from_record telemetry_event_to_dict"
    ),
    "telemetry_sink": "AppendOnlyTelemetrySink TelemetrySinkConfig",
}
# Names that the analyzer modules for JAX and TensorFlow import.
_OF_FRAMEWORK_ANALYZERS = {
    "collective_attribution": (
        "CollectiveAttributionConfig CollectiveAttributionResult "
        "attribute_collective_memory resolve_collective_attribution_config"
    ),
    "gap_analysis": "analyze_hidden_memory_gaps",
    "phases.policy": "PhaseAttribution phase_attribution_to_payload",
    "phases.replay": "PhaseReplayIndex",
    "telemetry": "TelemetryEventV2",
}

_NAMES: dict[str, dict[str, str]] = {
    "analyzer": {
        "collective_attribution": "CollectiveAttributionConfig",
        "phases.policy": "PhaseAttribution phase_attribution_to_payload",
        "profiler": "GPUMemoryProfiler ProfileResult",
        "telemetry": "TelemetryEventV2",
    },
    "collective_attribution": {
        "phases.policy": "merge_phase_attributions",
    },
    "cpu_profiler": {
        **_OF_TRACKERS,
    },
    "derived_fields": {
        "collector_health": "COLLECTOR_HEALTH_DEGRADED",
    },
    "diagnose": {
        "cuda_native_debug": (
            "capture_cuda_snapshot_artifacts cuda_memory_history "
            "cuda_memory_history_supported"
        ),
        "derived_fields": "compute_event_fields",
        "device_collectors": "build_device_memory_collector detect_torch_runtime_backend",
        "session": (
            "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SessionSummary "
            "create_session_summary now_ns session_summary_to_dict update_session_summary"
        ),
        "utils": "check_memory_fragmentation get_system_info suggest_memory_optimization",
    },
    "gap_analysis": {
        "derived_fields": "compute_event_fields",
    },
    "jax.analyzer": {
        **_OF_FRAMEWORK_ANALYZERS,
        "jax.utils": "format_memory",
    },
    "jax.context_profiler": {
        "jax.jax_env": "configure_jax_logging",
        "jax.utils": "JAX_AVAILABLE",
    },
    "jax.diagnose": {
        "derived_fields": "compute_event_fields",
        "session": (
            "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SESSION_STATUS_RUNNING "
            "SessionSummary create_session_summary now_ns session_summary_to_dict "
            "update_session_summary"
        ),
    },
    "jax.profiler": {
        "jax.jax_env": "configure_jax_logging",
        "jax.utils": "JAX_AVAILABLE get_device_memory_capability resolve_jax_device",
    },
    "jax.tracker": {
        "collector_health": (
            "COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY CollectorHealthState "
            "collector_retry_delay_seconds"
        ),
        "jax.jax_env": "configure_jax_logging",
        "jax.utils": "JAX_AVAILABLE get_device_memory_capability resolve_jax_device",
        "oom_flight_recorder": "OOMFlightRecorder OOMFlightRecorderConfig classify_oom_exception",
        **_OF_TRACKERS,
    },
    "jax.utils": {
        "jax.jax_env": "configure_jax_logging",
    },
    "jax.visualizer": {
        "jax.utils": "JAX_AVAILABLE",
    },
    "oom_flight_recorder": {
        "session": "SessionSummary session_summary_to_dict",
        "utils": "get_system_info",
    },
    "query": {
        "gap_analysis": "analyze_hidden_memory_gaps",
        "issues": (
            "ISSUE_STATE_OPEN categorize_alert_context normalize_issue_state "
            "normalize_text_dimension normalized_error_stem"
        ),
        "phases.policy": "phase_attribution_to_payload summarize_phase_attribution",
        "phases.replay": "PhaseReplayIndex",
        "run_catalog": "RUN_ENVELOPE_FILENAME run_envelope_from_payload",
        "session": (
            "SESSION_STATUS_INTERRUPTED SessionSummary infer_session_summary_from_events "
            "session_summary_from_dict session_summary_to_dict stable_legacy_session_id"
        ),
        "telemetry": (
            "LoadedTelemetrySession TelemetryEvent TelemetryEventV2 load_telemetry_sessions "
            "project_telemetry_event telemetry_event_from_record"
        ),
        "telemetry_classification": (
            "COLLECTOR_TRANSITION_TYPES event_backend event_severity is_alert_event "
            "is_collector_degradation_event is_oom_event"
        ),
        "telemetry_rollups": "RankRollup SessionRollup TelemetryRollupFile read_telemetry_rollups",
        "telemetry_sink": (
            "MANIFEST_FILENAME SEGMENT_SUFFIX TelemetrySinkManifest "
            "read_telemetry_sink_manifest resolve_telemetry_sink_segment_paths"
        ),
        "timeline_markers": "derive_session_timeline_markers timeline_marker_to_dict",
        "utils": "format_bytes",
    },
    "telemetry": {
        "session": (
            "SESSION_STATUS_INCOMPLETE infer_session_summary_from_events "
            "select_default_loaded_session sort_session_summaries stable_legacy_session_id"
        ),
        "telemetry_sink": "read_telemetry_sink_manifest resolve_telemetry_sink_segment_paths",
    },
    "telemetry_classification": {
        "issues": "normalize_text_dimension",
    },
    "telemetry_rollups": {
        "telemetry": "TelemetryEvent",
        "telemetry_classification": (
            "COLLECTOR_TRANSITION_TYPES event_severity is_alert_event is_oom_event"
        ),
        "telemetry_sink": "resolve_telemetry_sink_manifest_path",
    },
    "telemetry_sink": {
        "session": (
            "SESSION_STATUS_INTERRUPTED SESSION_STATUS_RUNNING create_session_summary now_ns "
            "session_summary_from_dict session_summary_to_dict update_session_summary"
        ),
    },
    "tensorflow.analyzer": {
        **_OF_FRAMEWORK_ANALYZERS,
        "tensorflow.utils": "format_memory",
    },
    "tensorflow.context_profiler": {
        "tensorflow.tf_env": "configure_tensorflow_logging",
        "tensorflow.utils": "TF_AVAILABLE",
    },
    "tensorflow.diagnose": {
        "derived_fields": "compute_event_fields",
        "session": (
            "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SessionSummary "
            "create_session_summary now_ns session_summary_to_dict update_session_summary"
        ),
    },
    "tensorflow.profiler": {
        "tensorflow.tf_env": "configure_tensorflow_logging",
        "tensorflow.utils": "TF_AVAILABLE",
    },
    "tensorflow.tracker": {
        "collector_health": (
            "COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY CollectorHealthState "
            "collector_retry_delay_seconds"
        ),
        **_OF_TRACKERS,
        "tensorflow.tf_env": "configure_tensorflow_logging",
        "tensorflow.utils": "TF_AVAILABLE",
    },
    "tensorflow.utils": {
        "tensorflow.tf_env": "configure_tensorflow_logging",
    },
    "timeline_markers": {
        "phases.policy": "format_phase_path",
        "phases.replay": "PhaseReplayIndex",
        "telemetry": "LoadedTelemetrySession",
    },
    "tracker": {
        "collector_health": (
            "COLLECTOR_HEALTH_DEGRADED COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY "
            "CollectorHealthState collector_retry_delay_seconds"
        ),
        "cuda_native_debug": (
            "capture_cuda_snapshot_artifacts cuda_memory_history_supported "
            "start_cuda_memory_history stop_cuda_memory_history"
        ),
        "device_collectors": (
            "DeviceMemorySample DeviceMemorySampleResult detect_torch_runtime_backend"
        ),
        "oom_flight_recorder": "OOMFlightRecorder OOMFlightRecorderConfig classify_oom_exception",
        **_OF_TRACKERS,
    },
    "visualizer": {
        "distributed_analysis": "RankTimelinePoint analyze_cross_rank_events",
        "profiler": "GPUMemoryProfiler MemorySnapshot ProfileResult",
        "telemetry": "TelemetryEventV2",
    },
}


def legacy_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that resolves its legacy names."""
    homes = {
        name: f"stormlog.{home}"
        for home, names in _NAMES[module.removeprefix("stormlog.")].items()
        for name in names.split()
    }

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find
