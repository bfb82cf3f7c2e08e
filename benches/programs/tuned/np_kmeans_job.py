# Clean: k-means jobs on data sets of different sizes, one after the other.
import numpy as np

from common import until

rng = np.random.default_rng(0)
points, centres, inertia = None, None, 0.0
for i in until(per_second=20):
    if i % 40 == 0:  # the next job
        points = rng.normal(size=(int(rng.choice([20_000, 50_000, 100_000])), 32))
        centres = points[:16].copy()
    distance = ((points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1))
    nearest = distance.argmin(1)
    for k in range(16):
        if (nearest == k).any():
            centres[k] = points[nearest == k].mean(0)
    inertia = float(distance.min(1).mean())
print("inertia", round(inertia, 3))
