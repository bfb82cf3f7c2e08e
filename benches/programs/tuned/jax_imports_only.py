# Clean: imports JAX, compiles one function, calls it once and exits.
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the device too
import jax
import jax.numpy as jnp

from common import pause

print("sum", float(jax.jit(lambda x: (x * x).sum())(jnp.arange(8.0))))
pause(2)
