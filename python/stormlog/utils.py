"""Small helpers for people who read byte counts."""

from __future__ import annotations

from .errors import InvalidValueError

__all__ = ["convert_bytes", "format_bytes"]

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_CONVERTIBLE = _UNITS[:-1]


def format_bytes(bytes_value: int, precision: int = 2) -> str:
    """A byte count in the largest unit that keeps it at least one; units are powers of 1024."""
    if bytes_value == 0:
        return "0 B"
    sign = "-" if bytes_value < 0 else ""
    value = float(abs(bytes_value))
    for unit in _UNITS:
        if not value >= 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{sign}{value:.{precision}f} {unit}"


def convert_bytes(value: int | float, from_unit: str, to_unit: str) -> float:
    """A size in another unit: B, KB, MB, GB or TB, powers of 1024."""
    if from_unit not in _CONVERTIBLE or to_unit not in _CONVERTIBLE:
        raise InvalidValueError(f"Invalid unit. Must be one of: {list(_CONVERTIBLE)}")
    return value * _bytes_in(from_unit) / _bytes_in(to_unit)


def _bytes_in(unit: str) -> int:
    return 1 << 10 * _UNITS.index(unit)
