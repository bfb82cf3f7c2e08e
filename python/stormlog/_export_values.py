"""Prepares values that are logged to W&B and MLflow: numbers are finite, texts are short and
contain no secrets."""

from __future__ import annotations

import re
from typing import Any

from . import _core

_LONGEST_TEXT = 500
_LONGEST_NAME = 64


def number(value: Any) -> int | float | None:
    """The value if it is a number below 2**63 in size, else None. A boolean is not a number
    here."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # No counter is larger. The comparison is also false for infinity and NaN.
    return value if abs(value) < 2**63 else None


def text(value: Any) -> str | None:
    """The value if it is a text that is not empty, else None. Secrets are removed, control
    characters become spaces, and the text is cut at 500 characters."""
    if not isinstance(value, str) or not value:
        return None
    hidden = _core.sendable_text(value[: 4 * _LONGEST_TEXT])
    plain = "".join(one if one.isprintable() else " " for one in hidden)
    return plain[:_LONGEST_TEXT] or None


def safe_name(value: Any, otherwise: str) -> str:
    """The value as a name that every service accepts: letters, digits, ``_``, ``.`` and ``-``, at
    most 64 characters. Other characters, such as slashes, become hyphens. If no character is left,
    or the value is not text, the result is ``otherwise``."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", value) if isinstance(value, str) else ""
    return plain.strip("-.")[:_LONGEST_NAME] or otherwise
