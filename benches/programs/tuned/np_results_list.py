# Bug: the outputs of every step are kept for a plot that is never drawn, 20 MB/s.
import numpy as np

from common import until

rng = np.random.default_rng(0)
weights = rng.normal(0, 0.05, (256, 256))
activations = []
for i in until(per_second=40):
    x = rng.normal(size=(256, 256))
    y = np.tanh(x @ weights)  # CULPRIT
    weights += 1e-4 * x.T @ (x - y)
    activations.append(y)  # CULPRIT-HOLDER
print("steps kept", len(activations), "norm", round(float(np.linalg.norm(weights)), 3))
