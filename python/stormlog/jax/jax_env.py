"""Imports JAX for the parts of the package that need it, when they first need it."""

from __future__ import annotations

import os
from typing import Any

from ..errors import MissingFrameworkError

_HINT = (
    "JAX not available. Install with `pip install jax`, for NVIDIA GPUs "
    "`pip install 'jax[cuda13]'`."
)


def configure_jax_logging() -> None:
    """Hide the log messages of JAX and XLA below the severity of errors. Environment variables that
    the user has set stay unchanged."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("JAX_LOG_COMPILES", "0")


def require_jax() -> Any:
    """Import and return the module ``jax``. Raises ``MissingFrameworkError``, which names what to
    install, if that fails."""
    configure_jax_logging()
    try:
        import jax
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="jax") from error
    return jax
