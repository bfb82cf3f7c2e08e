"""Tells the core of every fork, so that a child lets go of the parent's files and locks."""

from __future__ import annotations

import os

from . import _core

_announced = False


def announce() -> None:
    """Have the core told of every fork from here on."""
    global _announced
    if _announced or not hasattr(os, "register_at_fork"):
        return
    _announced = True
    os.register_at_fork(
        before=_core.before_fork,
        after_in_parent=_core.after_fork_in_parent,
        after_in_child=_core.forget_after_fork,
    )
    _core.every_fork_is_announced()
