"""Bug: the learning rate is a static argument, so each step compiles the update again."""

import functools

import jax
import jax.numpy as jnp

from parts import until


@functools.partial(jax.jit, static_argnames="rate")
def update(w, x, y, rate):  # CULPRIT-HOLDER
    def loss(w):
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    return w - rate * jax.grad(loss)(w)  # CULPRIT


def main():
    key = jax.random.PRNGKey(1)
    w = jnp.zeros((16, 1))
    x = jax.random.normal(key, (64, 16))
    y = x[:, :1]
    for step in until(30):
        w = update(w, x, y, 0.1 / (1 + step))
    print(float(jnp.abs(w).sum()) > 0)


if __name__ == "__main__":
    main()
