"""Records phases while a program runs."""

from __future__ import annotations

from .._phase_writer import *
from .._phase_writer import __all__ as __all__
