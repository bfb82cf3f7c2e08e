# Bug: a list of arrays grows until JAX has no device memory left. Ends with RESOURCE_EXHAUSTED,
# exit code 1. Takes at most 4 % of the device.
import os
import sys

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".04"
import jax
import jax.numpy as jnp

from common import endless

if jax.default_backend() != "gpu":
    sys.exit("this program needs JAX with a GPU, and none was found")
kept = []
x = jnp.ones((1024, 4096))
print("filling", flush=True)
for i in endless(per_second=30):
    x = jnp.tanh(x * 0.99)  # CULPRIT
    kept.append(x.block_until_ready())  # CULPRIT-HOLDER
