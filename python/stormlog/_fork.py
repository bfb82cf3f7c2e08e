"""Reports every fork to the Rust core, so that a child releases its copies of the parent's open
files and locks."""

from __future__ import annotations

import os

from . import _core

_announced = False


def announce() -> None:
    """Report every fork from now on to the Rust core. A second call does nothing."""
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
