"""Imports TensorFlow for the parts of the package that need it, when they first need it."""

from __future__ import annotations

import os
from typing import Any

from ..errors import MissingFrameworkError

_HINT = "TensorFlow is required for this feature. Install with `pip install tensorflow`."


def configure_tensorflow_logging() -> None:
    """Hide TensorFlow's informational messages, but not its warnings. An environment variable that
    the user has set stays unchanged."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def require_tensorflow() -> Any:
    """Import and return the module ``tensorflow``. Raises ``MissingFrameworkError``, which names
    what to install, if that fails."""
    configure_tensorflow_logging()
    try:
        import tensorflow
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="tensorflow") from error
    return tensorflow
