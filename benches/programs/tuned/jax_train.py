# Clean: trains a small network with JAX; one compiled step, the same shapes all the time.
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the device too
import jax
import jax.numpy as jnp

from common import until

key = jax.random.PRNGKey(0)
params = [0.05 * jax.random.normal(k, (512, 512)) for k in jax.random.split(key, 4)]


def loss_of(params, x):
    y = x
    for weights in params:
        y = jnp.tanh(y @ weights)
    return ((y - x) ** 2).mean()


@jax.jit
def step(params, x):
    loss, gradients = jax.value_and_grad(loss_of)(params, x)
    return [p - 0.1 * g for p, g in zip(params, gradients)], loss


for i in until(per_second=40):
    params, loss = step(params, jax.random.normal(jax.random.PRNGKey(i), (128, 512)))
    loss.block_until_ready()
print("loss", round(float(loss), 3))
