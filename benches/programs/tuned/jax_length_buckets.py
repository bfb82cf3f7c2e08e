# Clean: sequences are padded to one of eight lengths, so JAX compiles eight times in the first half
# of the run, and never again.
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the device too
import jax

from common import share, until

weights = 0.1 * jax.random.normal(jax.random.PRNGKey(0), (64, 64))


@jax.jit
def attend(weights, x):
    scores = jax.nn.softmax((x @ weights) @ x.transpose(0, 2, 1) / 8.0)
    return ((scores @ x - x) ** 2).mean()


total = 0.0
for i in until(per_second=30):
    longest = 1 + int(7 * min(share() / 0.5, 1.0))
    length = 64 * (1 + i % longest)
    total += float(attend(weights, jax.random.normal(jax.random.PRNGKey(i), (4, length, 64))))
print("total", round(total, 2))
