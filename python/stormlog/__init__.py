"""Stormlog: a flight recorder for accelerator memory in machine-learning training.

Names are imported when they are first used, so that ``import stormlog`` costs next to
nothing and imports no framework.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers know the name; importing it would cost more than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .telemetry import (
        TelemetryEventV2,
        load_telemetry_events,
        resolve_distributed_identity,
        telemetry_event_from_record,
        telemetry_event_to_dict,
        validate_telemetry_record,
    )
    from .utils import convert_bytes, format_bytes
    from .visualizer import MemoryVisualizer

    __version__: str

__all__ = [
    "MemoryVisualizer",
    "TelemetryEventV2",
    "convert_bytes",
    "format_bytes",
    "load_telemetry_events",
    "resolve_distributed_identity",
    "telemetry_event_from_record",
    "telemetry_event_to_dict",
    "validate_telemetry_record",
]

_MODULES = {
    "MemoryVisualizer": "visualizer",
    "TelemetryEventV2": "telemetry",
    "convert_bytes": "utils",
    "format_bytes": "utils",
    "load_telemetry_events": "telemetry",
    "resolve_distributed_identity": "telemetry",
    "telemetry_event_from_record": "telemetry",
    "telemetry_event_to_dict": "telemetry",
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
