"""Events of any kind on their way to the Rust core: converted to columns once, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._events import TelemetryEvents


def rows_of(events: Sequence[Any]) -> _core.EventRows:
    """The columns of events; unchanged loaded events have them already."""
    if isinstance(events, TelemetryEvents):
        return events._current_rows()
    return _core.rows_from_events(list(events))


def rows_or_objects(events: Sequence[Any]) -> _core.EventRows | list[Any]:
    """Columns of loaded events; anything else as it is, for analyses that take what they get."""
    return events._current_rows() if isinstance(events, TelemetryEvents) else list(events)


def metadata_of(event: Any) -> dict[str, Any]:
    """A copy of an event's metadata; nothing when it has none."""
    if isinstance(event, Mapping):
        metadata = event.get("metadata")
    else:
        metadata = getattr(event, "metadata", None)
    return dict(metadata) if isinstance(metadata, Mapping) else {}
