"""Access to JAX for the parts of the package that need it. They import it on first use."""

from __future__ import annotations

import os
from typing import Any

from ..errors import MissingFrameworkError

_HINT = (
    "JAX not available. Install with `pip install jax`, for NVIDIA GPUs "
    "`pip install 'jax[cuda13]'`."
)


def configure_jax_logging() -> None:
    """Silence JAX and XLA on import, unless the user has configured logging."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("JAX_LOG_COMPILES", "0")


def require_jax() -> Any:
    """The module ``jax``, or an error that names what to install."""
    configure_jax_logging()
    try:
        import jax
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="jax") from error
    return jax
