# Bug: the matrix of all distances is asked for at the end: 6 GB at once under a limit of 800 MiB.
# Ends with MemoryError (NumPy's), exit code 1.
import numpy as np

from common import limit_memory, until

rng = np.random.default_rng(0)
points = rng.normal(size=(28_000, 32))
limit_memory(800)
for i in until(per_second=25):
    sample = points[rng.integers(0, len(points), 512)]
    near = np.sqrt(((sample[:, None] - sample[None]) ** 2).sum(-1)).mean()
print("near", round(float(near), 4), flush=True)
distances = np.sqrt(2 * (1 - points @ points.T))  # CULPRIT
