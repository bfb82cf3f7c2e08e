"""Names that programs import from a module of stormlog 0.3.9 that does not define them.

A module of stormlog 0.3.9 also has the names that it imported for its own use, and programs import
some of these names from it. On access, such a name is looked up in the module that defines it. Type
checkers see only the public names of a module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# The modules that define the names.
_HOMES = {
    "collective_attribution": (
        "CollectiveAttributionConfig CollectiveAttributionResult attribute_collective_memory "
        "resolve_collective_attribution_config"
    ),
    "collector_health": (
        "COLLECTOR_HEALTH_DEGRADED COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY "
        "CollectorHealthState collector_retry_delay_seconds"
    ),
    "cuda_native_debug": (
        "capture_cuda_snapshot_artifacts cuda_memory_history cuda_memory_history_supported "
        "start_cuda_memory_history stop_cuda_memory_history"
    ),
    "derived_fields": "compute_event_fields",
    "device_collectors": (
        "DeviceMemorySample DeviceMemorySampleResult build_device_memory_collector "
        "detect_torch_runtime_backend"
    ),
    "distributed_analysis": "RankTimelinePoint analyze_cross_rank_events",
    "gap_analysis": "analyze_hidden_memory_gaps",
    "issues": (
        "ISSUE_STATE_OPEN categorize_alert_context normalize_issue_state normalize_text_dimension "
        "normalized_error_stem"
    ),
    "jax.jax_env": "configure_jax_logging",
    "jax.utils": "JAX_AVAILABLE get_device_memory_capability resolve_jax_device",
    "oom_flight_recorder": "OOMFlightRecorder OOMFlightRecorderConfig classify_oom_exception",
    "phases.policy": (
        "PhaseAttribution format_phase_path merge_phase_attributions phase_attribution_to_payload "
        "summarize_phase_attribution"
    ),
    "phases.replay": "PhaseReplayIndex",
    "phases.runtime": "PhaseHandle PhaseRecorder PhaseToken",
    "profiler": "GPUMemoryProfiler MemorySnapshot ProfileResult",
    "run_catalog": "RUN_ENVELOPE_FILENAME run_envelope_from_payload",
    "session": (
        "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SESSION_STATUS_INTERRUPTED "
        "SESSION_STATUS_RUNNING SessionSummary create_session_summary finalize_session_summary "
        "infer_session_summary_from_events now_ns select_default_loaded_session "
        "session_summary_from_dict session_summary_to_dict sort_session_summaries "
        "stable_legacy_session_id update_session_summary"
    ),
    "telemetry": (
        "LoadedTelemetrySession TelemetryEvent TelemetryEventV2 load_telemetry_sessions "
        "project_telemetry_event resolve_distributed_identity telemetry_event_from_record "
        "telemetry_event_to_dict"
    ),
    "telemetry_classification": (
        "COLLECTOR_TRANSITION_TYPES event_backend event_severity is_alert_event "
        "is_collector_degradation_event is_oom_event"
    ),
    "telemetry_rollups": "RankRollup SessionRollup TelemetryRollupFile read_telemetry_rollups",
    "telemetry_sink": (
        "AppendOnlyTelemetrySink MANIFEST_FILENAME SEGMENT_SUFFIX TelemetrySinkConfig "
        "TelemetrySinkManifest read_telemetry_sink_manifest resolve_telemetry_sink_manifest_path "
        "resolve_telemetry_sink_segment_paths"
    ),
    "tensorflow.tf_env": "configure_tensorflow_logging",
    "tensorflow.utils": "TF_AVAILABLE",
    "timeline_markers": "derive_session_timeline_markers timeline_marker_to_dict",
    "utils": "check_memory_fragmentation format_bytes get_system_info suggest_memory_optimization",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

# Names that every tracker module of stormlog 0.3.9 imports.
_OF_TRACKERS = (
    "AppendOnlyTelemetrySink PhaseHandle PhaseRecorder PhaseToken SESSION_STATUS_COMPLETED "
    "SESSION_STATUS_INCOMPLETE SESSION_STATUS_RUNNING SessionSummary TelemetrySinkConfig "
    "create_session_summary finalize_session_summary now_ns resolve_distributed_identity "
    "telemetry_event_from_record telemetry_event_to_dict update_session_summary"
)
# Names that the analyzer modules for JAX and TensorFlow import.
_OF_FRAMEWORK_ANALYZERS = (
    "CollectiveAttributionConfig CollectiveAttributionResult PhaseAttribution PhaseReplayIndex "
    "TelemetryEventV2 analyze_hidden_memory_gaps attribute_collective_memory "
    "phase_attribution_to_payload resolve_collective_attribution_config"
)

# The names that each module imports for its own use. A name that several modules define comes
# after the module that is meant.
_NAMES = {
    "analyzer": (
        "CollectiveAttributionConfig GPUMemoryProfiler PhaseAttribution ProfileResult "
        "TelemetryEventV2 phase_attribution_to_payload"
    ),
    "collective_attribution": "merge_phase_attributions",
    "cpu_profiler": _OF_TRACKERS,
    "derived_fields": "COLLECTOR_HEALTH_DEGRADED",
    "diagnose": (
        "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SessionSummary "
        "build_device_memory_collector capture_cuda_snapshot_artifacts check_memory_fragmentation "
        "compute_event_fields create_session_summary cuda_memory_history "
        "cuda_memory_history_supported detect_torch_runtime_backend get_system_info now_ns "
        "session_summary_to_dict suggest_memory_optimization update_session_summary"
    ),
    "gap_analysis": "compute_event_fields",
    "jax.analyzer": f"{_OF_FRAMEWORK_ANALYZERS} jax.utils.format_memory",
    "jax.context_profiler": "JAX_AVAILABLE configure_jax_logging",
    "jax.diagnose": (
        "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SESSION_STATUS_RUNNING SessionSummary "
        "compute_event_fields create_session_summary now_ns session_summary_to_dict "
        "update_session_summary"
    ),
    "jax.profiler": (
        "JAX_AVAILABLE configure_jax_logging get_device_memory_capability resolve_jax_device"
    ),
    "jax.tracker": (
        f"{_OF_TRACKERS} COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY CollectorHealthState "
        "JAX_AVAILABLE OOMFlightRecorder OOMFlightRecorderConfig classify_oom_exception "
        "collector_retry_delay_seconds configure_jax_logging get_device_memory_capability "
        "resolve_jax_device"
    ),
    "jax.utils": "configure_jax_logging",
    "jax.visualizer": "JAX_AVAILABLE",
    "oom_flight_recorder": "SessionSummary get_system_info session_summary_to_dict",
    "query": (
        "COLLECTOR_TRANSITION_TYPES ISSUE_STATE_OPEN LoadedTelemetrySession MANIFEST_FILENAME "
        "PhaseReplayIndex RUN_ENVELOPE_FILENAME RankRollup SEGMENT_SUFFIX "
        "SESSION_STATUS_INTERRUPTED SessionRollup SessionSummary TelemetryEvent TelemetryEventV2 "
        "TelemetryRollupFile TelemetrySinkManifest analyze_hidden_memory_gaps "
        "categorize_alert_context derive_session_timeline_markers event_backend event_severity "
        "format_bytes infer_session_summary_from_events is_alert_event "
        "is_collector_degradation_event is_oom_event load_telemetry_sessions normalize_issue_state "
        "normalize_text_dimension normalized_error_stem phase_attribution_to_payload "
        "project_telemetry_event read_telemetry_rollups read_telemetry_sink_manifest "
        "resolve_telemetry_sink_segment_paths run_envelope_from_payload session_summary_from_dict "
        "session_summary_to_dict stable_legacy_session_id summarize_phase_attribution "
        "telemetry_event_from_record timeline_marker_to_dict"
    ),
    "telemetry": (
        "SESSION_STATUS_INCOMPLETE infer_session_summary_from_events read_telemetry_sink_manifest "
        "resolve_telemetry_sink_segment_paths select_default_loaded_session sort_session_summaries "
        "stable_legacy_session_id"
    ),
    "telemetry_classification": "normalize_text_dimension",
    "telemetry_rollups": (
        "COLLECTOR_TRANSITION_TYPES TelemetryEvent event_severity is_alert_event is_oom_event "
        "resolve_telemetry_sink_manifest_path"
    ),
    "telemetry_sink": (
        "SESSION_STATUS_INTERRUPTED SESSION_STATUS_RUNNING create_session_summary now_ns "
        "session_summary_from_dict session_summary_to_dict update_session_summary"
    ),
    "tensorflow.analyzer": f"{_OF_FRAMEWORK_ANALYZERS} tensorflow.utils.format_memory",
    "tensorflow.context_profiler": "TF_AVAILABLE configure_tensorflow_logging",
    "tensorflow.diagnose": (
        "SESSION_STATUS_COMPLETED SESSION_STATUS_INCOMPLETE SessionSummary compute_event_fields "
        "create_session_summary now_ns session_summary_to_dict update_session_summary"
    ),
    "tensorflow.profiler": "TF_AVAILABLE configure_tensorflow_logging",
    "tensorflow.tracker": (
        f"{_OF_TRACKERS} COLLECTOR_HEALTH_HEALTHY COLLECTOR_HEALTH_UNHEALTHY CollectorHealthState "
        "TF_AVAILABLE collector_retry_delay_seconds configure_tensorflow_logging"
    ),
    "tensorflow.utils": "configure_tensorflow_logging",
    "timeline_markers": "LoadedTelemetrySession PhaseReplayIndex format_phase_path",
    "tracker": (
        f"{_OF_TRACKERS} COLLECTOR_HEALTH_DEGRADED COLLECTOR_HEALTH_HEALTHY "
        "COLLECTOR_HEALTH_UNHEALTHY CollectorHealthState DeviceMemorySample "
        "DeviceMemorySampleResult OOMFlightRecorder OOMFlightRecorderConfig "
        "capture_cuda_snapshot_artifacts classify_oom_exception collector_retry_delay_seconds "
        "cuda_memory_history_supported detect_torch_runtime_backend start_cuda_memory_history "
        "stop_cuda_memory_history"
    ),
    "visualizer": (
        "GPUMemoryProfiler MemorySnapshot ProfileResult RankTimelinePoint TelemetryEventV2 "
        "analyze_cross_rank_events"
    ),
}


def legacy_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that resolves its legacy names."""
    homes: dict[str, str] = {}
    for word in _NAMES[module.removeprefix("stormlog.")].split():
        home, _, name = word.rpartition(".")
        homes[name] = home or _HOME_OF[name]

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(f"stormlog.{homes[name]}"), name)

    return find
