"""What several tests need."""

from __future__ import annotations

import subprocess

import pytest
from parity import reference


@pytest.fixture(scope="session")
def reference_python() -> str:
    """The interpreter that has the reference."""
    try:
        return reference.interpreter()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the reference cannot be installed here: {error}")
