"""As much of TensorFlow as the trackers call; the memory of its GPU is set in ``STATE``."""

from __future__ import annotations

import types
from typing import Any

STATE: dict[str, Any] = {"gpus": [], "current": 100 << 20}


class Tensor:
    pass


class Variable:
    pass


config = types.SimpleNamespace(
    list_physical_devices=lambda kind=None: STATE["gpus"],
    experimental=types.SimpleNamespace(
        get_memory_info=lambda name: {"current": STATE["current"], "peak": STATE["current"]}
    ),
)
keras = types.SimpleNamespace(backend=types.SimpleNamespace(clear_session=lambda: None))
