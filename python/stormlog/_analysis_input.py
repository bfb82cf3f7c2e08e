"""Converts events of any kind to columns for the Rust core; loaded events already are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._events import TelemetryEvents


def rows_of(events: Sequence[Any]) -> _core.EventRows:
    """The columns of events. For loaded events that were not changed, nothing is converted."""
    if isinstance(events, TelemetryEvents):
        return events._current_rows()
    return _core.rows_from_events(list(events))


def rows_or_objects(events: Sequence[Any]) -> _core.EventRows | list[Any]:
    """The columns of loaded events; other events unchanged, for analyses that accept any form."""
    return events._current_rows() if isinstance(events, TelemetryEvents) else list(events)


def metadata_of(event: Any) -> dict[str, Any]:
    """A copy of an event's metadata; empty when it has none."""
    if isinstance(event, Mapping):
        metadata = event.get("metadata")
    else:
        metadata = getattr(event, "metadata", None)
    return dict(metadata) if isinstance(metadata, Mapping) else {}
