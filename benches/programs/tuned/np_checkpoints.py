# Clean: trains and writes a checkpoint every 50 steps. It is built in memory first, so that each
# checkpoint is a short peak of 100 MiB.
import io

import numpy as np

from common import until

rng = np.random.default_rng(0)
weights = rng.normal(0, 0.02, (1024, 2048))
moments = [np.zeros_like(weights), np.zeros_like(weights)]
saved, history = 0, []
for i in until(per_second=25):
    x = rng.normal(size=(32, 1024))
    gradient = x.T @ (x @ weights) / 32
    moments[0] = 0.9 * moments[0] + 0.1 * gradient
    moments[1] = 0.99 * moments[1] + 0.01 * gradient**2
    weights -= 1e-3 * moments[0] / (np.sqrt(moments[1]) + 1e-8)
    history.append(float((gradient**2).mean()))
    if i % 50 == 49:
        file = io.BytesIO()
        np.savez(file, weights=weights, first=moments[0], second=moments[1])
        saved += len(file.getvalue())
print("saved", saved, "gradient", round(history[-1], 4))
