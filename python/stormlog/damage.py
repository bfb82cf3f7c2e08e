"""Damage of artifacts: what could not be read, and where."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from .errors import StormlogDamageWarning

_Fields = tuple[Path, "int | None", "tuple[int, int] | None", str, "str | None"]


@dataclass(frozen=True)
class Damage:
    """A part of a file that was skipped."""

    file: Path
    line: int | None
    byte_range: tuple[int, int] | None
    reason: str
    field: str | None = None

    def __str__(self) -> str:
        line = "" if self.line is None else f" line {self.line}"
        return f"'{self.file}'{line}: {self.reason}"


def damage_of_fields(fields: list[_Fields]) -> tuple[Damage, ...]:
    """Make ``Damage`` objects from the fields that the Rust core returns."""
    return tuple(Damage(*entry) for entry in fields)


def warn_of_damage(damage: tuple[Damage, ...]) -> None:
    """Issue one warning that some records could not be read. The warning points to the line of the
    program that called the loading function."""
    if not damage:
        return
    more = f" (and {len(damage) - 1} more, see .damage)" if len(damage) > 1 else ""
    warnings.warn(StormlogDamageWarning(f"{damage[0]}{more}"), stacklevel=3)
