"""Reduces the events of a recording to at most 250 points of a timeline and 250 alerts, which are
logged to W&B and MLflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _core
from ._analysis_input import field_of
from ._export_values import number, text

MOST_POINTS = 250
MOST_ALERTS = 250
# How many points of the timeline may be alerts. The other points show how memory changes.
_MOST_ALERT_POINTS = 50
# Times in seconds must be below this, so that their nanoseconds fit in a signed 64-bit integer.
_LAST_S = 2**63 / 1e9
_ALERT_TYPES = {*_core.ALERT_EVENT_TYPES, "peak"}


class Moment(NamedTuple):
    """An event, with the fields that are logged. Unknown values are None. ``place`` is the index of
    the event among the events that were given. Memory is in bytes."""

    place: int
    time_s: float
    event_type: str
    context: str | None
    allocated: int | None
    reserved: int | None
    change: int | None
    used: int | None
    total: int | None
    device_id: int | None
    job_id: str | None
    rank: int | None

    @property
    def level(self) -> int | None:
        """The memory in use: the highest of used, reserved and allocated bytes that is known."""
        known = [value for value in (self.used, self.reserved, self.allocated) if value is not None]
        return max(known) if known else None

    @property
    def utilization_percent(self) -> float | None:
        if self.used is None or self.total is None or self.total <= 0:
            return None
        return self.used / self.total * 100

    @property
    def is_alert(self) -> bool:
        return self.event_type in _ALERT_TYPES


def moments_of(events: Iterable[Any]) -> list[Moment]:
    """The events as moments, in order of time; events without a valid time are left out. ``events``
    may be events of a tracker, loaded events, or records (dictionaries)."""
    moments = []
    for place, event in enumerate(events):
        time_ns = number(field_of(event, "timestamp_ns"))
        time_s = time_ns / 1e9 if time_ns is not None else number(field_of(event, "timestamp"))
        if time_s is None or not 0 <= time_s < _LAST_S:
            continue
        moments.append(
            Moment(
                place=place,
                time_s=float(time_s),
                event_type=text(field_of(event, "event_type")) or "unknown",
                context=text(field_of(event, "context")),
                allocated=_bytes(field_of(event, "allocator_allocated_bytes", "memory_allocated")),
                reserved=_bytes(field_of(event, "allocator_reserved_bytes", "memory_reserved")),
                change=_bytes(field_of(event, "allocator_change_bytes", "memory_change")),
                used=_bytes(field_of(event, "device_used_bytes", "device_used")),
                total=_bytes(field_of(event, "device_total_bytes", "device_total")),
                device_id=_whole(field_of(event, "device_id")),
                job_id=text(field_of(event, "job_id")),
                rank=_whole(field_of(event, "rank")),
            )
        )
    return sorted(moments, key=lambda moment: moment.time_s)


def device_to_draw(moments: list[Moment]) -> int | None:
    """The index of the device to draw: the device with the highest memory use.

    The timeline can show only one device. Host memory, whose index is None or negative, is drawn
    only when no moment of a device has a known level. The result is also None when no level is
    known at all.
    """
    peaks: dict[int | None, float] = {}
    for moment in moments:
        level = moment.level
        if level is not None:
            peaks[moment.device_id] = max(peaks.get(moment.device_id, 0), level)
    if not peaks:
        return None
    return max(
        peaks, key=lambda device: ((device if device is not None else -1) >= 0, peaks[device])
    )


def points_of(moments: list[Moment]) -> list[Moment]:
    """At most 250 moments that keep the shape of the timeline.

    At most 250 given moments are returned unchanged. Of more moments, the first, the last and the
    last 50 alerts are kept. The given moments are also divided into stretches of equal numbers of
    moments, and of each stretch the moments with the least and the most memory are kept.
    """
    if len(moments) <= MOST_POINTS:
        return moments
    alerts = [place for place, moment in enumerate(moments) if moment.is_alert]
    kept = {0, len(moments) - 1, *alerts[-_MOST_ALERT_POINTS:]}
    stretches = (MOST_POINTS - len(kept)) // 2
    for stretch in range(stretches):
        begin = len(moments) * stretch // stretches
        end = len(moments) * (stretch + 1) // stretches
        levels = [(moments[place].level, place) for place in range(begin, end)]
        known = [(level, place) for level, place in levels if level is not None]
        if known:
            kept |= {min(known)[1], max(known)[1]}
    return [moments[place] for place in sorted(kept)]


def alerts_of(moments: list[Moment]) -> list[Moment]:
    """The last 250 alerts."""
    return [moment for moment in moments if moment.is_alert][-MOST_ALERTS:]


def page_of(moments: list[Moment], session_id: str, title: str) -> str:
    """An HTML page that draws the moments and loads no other files."""
    rows = _core.rows_from_events(
        [
            {
                "session_id": session_id,
                "timestamp_ns": int(moment.time_s * 1e9),
                "event_type": moment.event_type,
                "context": moment.context,
                "allocator_allocated_bytes": moment.allocated,
                "allocator_reserved_bytes": moment.reserved,
                "allocator_change_bytes": moment.change,
                "device_used_bytes": moment.used,
                "device_total_bytes": moment.total,
                "device_id": moment.device_id,
                "job_id": moment.job_id,
                "rank": moment.rank,
            }
            for moment in moments
        ]
    )
    return _core.Drawing.of_rows(rows, "timeline", title).html(theme="system")


def _bytes(value: Any) -> int | None:
    known = number(value)
    return None if known is None else int(known)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and number(value) is not None else None
