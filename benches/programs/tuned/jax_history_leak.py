# Bug: the parameters of every step are kept "for averaging later". Device memory on a GPU, host
# memory on the CPU.
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the device too
import jax
import jax.numpy as jnp

from common import until

params = 0.05 * jax.random.normal(jax.random.PRNGKey(0), (384, 384))


@jax.jit
def step(params, x):
    return params - 0.1 * jax.grad(lambda p: ((jnp.tanh(x @ p) - x) ** 2).mean())(params)


history = []
for i in until(per_second=40):
    params = step(params, jax.random.normal(jax.random.PRNGKey(i), (64, 384)))  # CULPRIT
    history.append(params)  # CULPRIT-HOLDER
    params.block_until_ready()
print("kept", len(history), "norm", round(float(jnp.linalg.norm(params)), 2))
