"""JAX: not supported yet. Importing this says so, and what to use until then."""

from __future__ import annotations

from ..errors import NotSupportedModuleError

raise NotSupportedModuleError(
    "stormlog.jax is not supported yet; `stormlog.track()` records the process, and"
    " `stormlog track -- python train.py` its GPUs"
)
