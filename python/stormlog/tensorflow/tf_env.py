"""Access to TensorFlow for the parts of the package that need it. They import it on first use."""

from __future__ import annotations

import os
from typing import Any

from ..errors import MissingFrameworkError

_HINT = "TensorFlow is required for this feature. Install with `pip install tensorflow`."


def configure_tensorflow_logging() -> None:
    """Silence TensorFlow's messages on import, unless the user has configured them."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def require_tensorflow() -> Any:
    """The module ``tensorflow``, or an error that names what to install."""
    configure_tensorflow_logging()
    try:
        import tensorflow
    except ImportError as error:
        raise MissingFrameworkError(_HINT, name="tensorflow") from error
    return tensorflow
