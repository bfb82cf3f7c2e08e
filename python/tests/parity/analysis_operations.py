"""What the cases for analyses do, in terms of the public package."""

from __future__ import annotations

import sys
import types
from dataclasses import asdict, is_dataclass
from types import SimpleNamespace
from typing import Any

from .operations import module, operation

THRESHOLD_DIGITS = 9


def event(partial: dict[str, Any]) -> Any:
    rank = partial.get("rank", 0)
    return module("telemetry").TelemetryEventV3(
        schema_version=3,
        session_id=partial.get("sid", "s"),
        timestamp_ns=partial["t"],
        event_type=partial.get("type", "sample"),
        collector="c",
        sampling_interval_ms=partial.get("ms", 100),
        pid=partial.get("pid", 1),
        host="h",
        device_id=0,
        allocator_allocated_bytes=partial.get("alloc", 0),
        allocator_reserved_bytes=partial.get("res", 0),
        allocator_active_bytes=None,
        allocator_inactive_bytes=None,
        allocator_change_bytes=0,
        device_used_bytes=partial.get("used", 0),
        device_free_bytes=None,
        device_total_bytes=partial.get("total"),
        context=partial.get("ctx"),
        job_id=partial.get("job"),
        rank=rank,
        local_rank=rank,
        world_size=partial.get("ws", rank + 1),
        metadata=dict(partial.get("meta", {})),
    )


def plain(value: Any) -> Any:
    """Plain data, floats to the digits that different sums agree on."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        entries = [(key, plain(item)) for key, item in value.items()]
        # Results by rank are looked up, not read in order.
        by_rank = entries and all(isinstance(key, int) or key.isdigit() for key, _ in entries)
        return dict(sorted(entries) if by_rank else entries)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{float(value):.{THRESHOLD_DIGITS}g}")
    return value


def resolver(events: list[Any], wanted: bool) -> Any:
    return module("phases").PhaseReplayIndex.from_events(events) if wanted else None


def has_slope(events: list[Any]) -> bool:
    """Whether the samples have more than one time. If all have the same, stormlog 0.3.9 raises an
    error, and this package finds no drift."""
    usable = [
        one.timestamp_ns
        for one in events
        if one.event_type.strip().lower() == "sample" and one.device_total_bytes
    ]
    return len(usable) < 5 or len(set(usable)) > 1


@operation
def gap_findings(given: Any, thresholds: Any, phases: bool) -> Any:
    events = [event(one) for one in given]
    if not has_slope(events):
        return "no slope"
    return plain(
        module("gap_analysis").analyze_hidden_memory_gaps(
            events,
            thresholds,
            module("utils").format_bytes,
            {"transient_spike": ["a"]},
            resolver(events, phases),
        )
    )


@operation
def cross_rank(given: Any, phases: bool) -> Any:
    api = module("distributed_analysis")
    events = [event(one) for one in given]
    index = resolver(events, phases)
    return plain(
        [
            api.analyze_cross_rank_events(events, phase_resolver=index),
            api.merge_cross_rank_timelines(events),
            api.summarize_cross_rank_analysis(events, phase_resolver=index),
        ]
    )


@operation
def collective(given: Any, preset: str, overrides: Any, phases: bool) -> Any:
    events = [event(one) for one in given]
    return plain(
        module("collective_attribution").attribute_collective_memory(
            events, preset=preset, overrides=overrides, phase_resolver=resolver(events, phases)
        )
    )


@operation
def collective_config(preset: str, overrides: Any) -> Any:
    api = module("collective_attribution")
    return plain(api.resolve_collective_attribution_config(preset, overrides))


@operation
def timeline(given: Any, phases: bool, mappings: bool) -> Any:
    events = [event(one) for one in given]
    if mappings:
        events = [asdict(one) for one in events]
    api = module("timeline_markers")
    found = api.derive_timeline_markers(events, include_phase_markers=phases)
    return [(plain(marker), marker.is_interval) for marker in found]


@operation
def phase_replay(given: Any, moment: Any) -> Any:
    api = module("phases")
    events = [event(one) for one in given]
    index = api.PhaseReplayIndex.from_events(events)
    found = index.resolve(**moment)
    parsed = [api.parse_phase_boundary(one) for one in events]
    merged = None
    for one in events:
        merged = api.merge_phase_attributions(merged, index.resolve_for_event(one))
    return plain(
        [
            index.spans_for(session_id="s"),
            index.spans_for(session_id="s", rank=1),
            found,
            api.phase_attribution_to_payload(found),
            api.summarize_phase_attribution(found),
            [vars(one) if one else None for one in parsed],
            merged,
        ]
    )


@operation
def loose_events(events: Any) -> Any:
    phases, markers = module("phases"), module("timeline_markers")
    index = phases.PhaseReplayIndex.from_events(events)
    found = markers.derive_timeline_markers(events)
    objects = [SimpleNamespace(**one) for one in events]
    return plain(
        [
            index.spans_for(session_id="s"),
            [index.resolve_for_event(one) for one in events],
            [markers.timeline_marker_to_dict(one) for one in found],
            len(markers.derive_timeline_markers(objects)),
        ]
    )


def analyzer() -> Any:
    """The analyzer; stormlog 0.3.9's imports PyTorch, which a stand-in satisfies."""
    try:
        return module("analyzer").MemoryAnalyzer()
    except ImportError:
        pass

    class Anything(type):
        def __getattr__(cls, name: str) -> Any:
            return cls

        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            return type.__call__(cls)

    stand_in = Anything("stand_in", (), {})
    for name in ("torch", "torch.nn", "torch.cuda", "torch.utils", "torch.backends"):
        fake: Any = types.ModuleType(name)
        fake.__getattr__ = lambda attribute: stand_in
        fake.__path__ = []
        sys.modules[name] = fake
    return module("analyzer").MemoryAnalyzer()


def profile(row: Any) -> Any:
    name, seconds, before, after, peak, allocated, freed, start, reserved = row

    def snapshot(at: float, size: int) -> Any:
        return SimpleNamespace(timestamp=at, allocated_memory=size, reserved_memory=reserved)

    return SimpleNamespace(
        function_name=name,
        execution_time=seconds,
        memory_before=snapshot(start, before),
        memory_after=snapshot(start + seconds, after),
        memory_peak=snapshot(start + seconds, peak),
        memory_allocated=allocated,
        memory_freed=freed,
        memory_diff=lambda: after - before,
        peak_memory_usage=lambda: peak,
    )


SETS = ("affected_functions", "memory_intensive_functions")


def settled(value: Any, key: str = "") -> Any:
    """The value without what depends on the last bit of a float; lists made of sets are sorted."""
    if isinstance(value, dict):
        noise = ("p_value", "highest_variance")
        return {k: settled(v, k) for k, v in value.items() if k not in noise}
    if isinstance(value, list):
        items = [settled(item) for item in value]
        return sorted(items) if key in SETS else items
    return value


@operation
def profile_report(rows: Any, events: Any) -> Any:
    given = {} if events is None else {"events": [event(one) for one in events]}
    if not has_slope(given.get("events", [])):
        return "no slope"
    report = analyzer().generate_optimization_report([profile(row) for row in rows], **given)
    return settled(plain(report))


@operation
def profile_insights(rows: Any) -> Any:
    found = analyzer().generate_performance_insights([profile(row) for row in rows])
    return settled(plain([asdict(insight) for insight in found]))
