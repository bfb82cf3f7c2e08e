"""Prepares values for W&B and MLflow: of the right type, finite, short, without secrets."""

from __future__ import annotations

import re
from typing import Any

from . import _core

_LONGEST_TEXT = 500
_LONGEST_NAME = 64


def number(value: Any) -> int | float | None:
    """The value if it is a finite number; booleans are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # No counter is larger, and NaN fails the comparison.
    return value if abs(value) < 2**63 else None


def text(value: Any) -> str | None:
    """The value if it is text, without secrets and control characters, and shortened."""
    if not isinstance(value, str) or not value:
        return None
    hidden = _core.sendable_text(value[: 4 * _LONGEST_TEXT])
    plain = "".join(one if one.isprintable() else " " for one in hidden)
    return plain[:_LONGEST_TEXT]


def safe_name(value: Any, otherwise: str) -> str:
    """The value as part of a name that every service accepts, without slashes."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", value) if isinstance(value, str) else ""
    return plain.strip("-.")[:_LONGEST_NAME] or otherwise
