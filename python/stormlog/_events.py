"""The events of a loaded session, which behave like a list and are stored as columns.

An event becomes a Python object on access. The object is kept while the program refers to it, and
also when the program has changed it. Other objects are dropped, so a loop over millions of events
keeps only a few thousand objects at a time. When the program first adds, removes, replaces or
reorders events, all events become objects in a real list.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from . import _core

if TYPE_CHECKING:
    from .damage import Damage
    from .telemetry import TelemetryEventV3

    _Base = MutableSequence["TelemetryEventV3"]
else:
    # `MutableSequence` is not the base class, because polars converts each of its subclasses row by
    # row, and then forces metadata of different shapes into the shape of the first row.
    _Base = object


# At least this many event objects are kept before unused ones are dropped.
_MOST_TOUCHED = 4096


class TelemetryEvents(_Base):
    """The events of one session; use it as a list.

    ``damage`` lists what could not be read. ``pyarrow.table(events)`` and
    ``polars.DataFrame(events)`` read the columns directly, without a Python object for each event.
    """

    __slots__ = ("_list", "_most_touched", "_rows", "_touched", "damage")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, rows: _core.EventRows, damage: tuple[Damage, ...] = ()) -> None:
        self._rows = rows
        self._touched: dict[int, TelemetryEventV3] = {}
        self._most_touched = _MOST_TOUCHED
        self._list: list[TelemetryEventV3] | None = None
        self.damage = damage

    if not TYPE_CHECKING:
        __contains__ = MutableSequence.__contains__
        __iadd__ = MutableSequence.__iadd__
        __reversed__ = MutableSequence.__reversed__
        append = MutableSequence.append
        count = MutableSequence.count
        extend = MutableSequence.extend
        index = MutableSequence.index
        pop = MutableSequence.pop
        remove = MutableSequence.remove

    def __len__(self) -> int:
        return len(self._rows if self._list is None else self._list)

    @overload
    def __getitem__(self, place: SupportsIndex) -> TelemetryEventV3: ...
    @overload
    def __getitem__(self, place: slice) -> list[TelemetryEventV3]: ...
    def __getitem__(
        self, place: SupportsIndex | slice
    ) -> TelemetryEventV3 | list[TelemetryEventV3]:
        if self._list is not None:
            return self._list[place]
        if isinstance(place, slice):
            return [self._event(index) for index in range(*place.indices(len(self)))]
        index = operator.index(place)
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("event index out of range")
        return self._event(index)

    def __iter__(self) -> Iterator[TelemetryEventV3]:
        # As with a list, events added while iterating are included.
        index = 0
        while index < len(self):
            yield self._event(index) if self._list is None else self._list[index]
            index += 1

    def _event(self, index: int) -> TelemetryEventV3:
        event = self._touched.get(index)
        if event is None:
            if len(self._touched) >= self._most_touched:
                self._drop_unused()
            event = self._touched[index] = self._rows.event(index)
        return event

    def _drop_unused(self) -> None:
        """Drop event objects that nothing else refers to and that the program has not changed."""
        touched = self._touched
        for index in list(touched):
            if touched[index].__dict__ != self._rows.fields(index):
                continue
            still_used = weakref.ref(touched.pop(index))()
            if still_used is not None:
                touched[index] = still_used
        # This function is called again when twice as many objects are kept as are in use now. So
        # the work of all calls together is proportional to the number of events that the program
        # accesses.
        self._most_touched = max(_MOST_TOUCHED, 2 * len(touched))

    def _as_list(self) -> list[TelemetryEventV3]:
        if self._list is None:
            self._list = [self._event(index) for index in range(len(self._rows))]
        return self._list

    def __setitem__(self, place: Any, event: Any) -> None:
        self._as_list()[place] = event

    def __delitem__(self, place: Any) -> None:
        del self._as_list()[place]

    def insert(self, place: SupportsIndex, event: TelemetryEventV3) -> None:
        """Insert an event before an index."""
        self._as_list().insert(place, event)

    def clear(self) -> None:
        """Remove every event."""
        self._as_list().clear()

    def reverse(self) -> None:
        """Reverse in place."""
        self._as_list().reverse()

    def sort(
        self,
        *,
        key: Callable[[TelemetryEventV3], Any] | None = None,
        reverse: bool = False,
    ) -> None:
        """Sort in place, as ``list.sort``."""
        self._as_list().sort(key=key, reverse=reverse)  # type: ignore[arg-type]

    def copy(self) -> TelemetryEvents:
        """A new sequence with the same event objects, which are not copied."""
        twin = TelemetryEvents(self._rows, self.damage)
        twin._touched = self._touched
        twin._list = None if self._list is None else self._list.copy()
        return twin

    __copy__ = copy

    def __add__(self, other: Iterable[Any]) -> list[Any]:
        if not isinstance(other, (list, TelemetryEvents)):
            return NotImplemented
        return [*self, *other]

    def __radd__(self, other: Iterable[Any]) -> list[Any]:
        if not isinstance(other, list):
            return NotImplemented
        return [*other, *self]

    def __mul__(self, count: SupportsIndex) -> list[TelemetryEventV3]:
        return list(self) * count

    __rmul__ = __mul__

    def __imul__(self, count: SupportsIndex) -> TelemetryEvents:
        self._as_list().__imul__(count)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, TelemetryEvents)):
            return NotImplemented
        if self is other:
            return True
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    def __repr__(self) -> str:
        return f"<TelemetryEvents: {len(self)} events>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (list(self), self.damage)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The events as an Arrow stream, for any library that reads Arrow's PyCapsule interface."""
        return self._current_rows().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The names and types of the columns of the Arrow stream."""
        return self._rows.__arrow_c_schema__()

    def _current_rows(self) -> _core.EventRows:
        """The columns, including changes that the program made to events or to the list."""
        touched = self._touched.items()
        changed = self._list is not None or any(
            event.__dict__ != self._rows.fields(index) for index, event in touched
        )
        if not changed:
            return self._rows
        from .telemetry import telemetry_event_to_dict

        return _core.rows_from_records([telemetry_event_to_dict(event) for event in self])


def _restore(events: list[TelemetryEventV3], damage: tuple[Damage, ...]) -> TelemetryEvents:
    sequence = TelemetryEvents(_core.rows_from_records([]), damage)
    sequence._list = events
    return sequence
