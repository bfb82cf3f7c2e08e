"""Bug: writes are deferred as closures; the list of them is drained only at the end."""

import io
import random

import numpy as np

from parts import until

out = io.BytesIO()


def defer(pending, block, name):
    def write():
        out.seek(0)
        np.save(out, block)
        return name

    pending.append(write)  # CULPRIT-HOLDER


def main():
    rng = np.random.default_rng(1)
    rnd = random.Random(1)
    pending = []
    means = 0.0
    for n in until(30):
        block = rng.normal(size=(64, 200)).astype(np.float32)
        means += float(block.mean())
        if rnd.random() < 0.9:
            defer(pending, block, f"block {n}")
    print(means != 0.0, len(pending) > 0)


if __name__ == "__main__":
    main()
