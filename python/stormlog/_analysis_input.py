"""Converts events in any form to the columns that the Rust core reads. Events that were loaded from
a file are columns already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _core
from ._events import TelemetryEvents


def rows_of(events: Sequence[Any]) -> _core.EventRows:
    """The events as columns. Loaded events that were not changed need no conversion."""
    if isinstance(events, TelemetryEvents):
        return events._current_rows()
    return _core.rows_from_events(list(events))


def rows_or_objects(events: Sequence[Any]) -> _core.EventRows | list[Any]:
    """Loaded events as columns, or any other events as a list of the same objects. For analyses
    that accept both forms."""
    return events._current_rows() if isinstance(events, TelemetryEvents) else list(events)


def field_of(entry: Any, *names: str) -> Any:
    """The value of the first of these names that the entry has, as a key or an attribute, and that
    is not None. None when it has no such value."""
    for name in names:
        value = entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
        if value is not None:
            return value
    return None


def metadata_of(event: Any) -> dict[str, Any]:
    """A copy of an event's metadata; empty when it has none."""
    metadata = field_of(event, "metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}
