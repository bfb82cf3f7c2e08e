# Clean: trains at a steady level, then predicts the whole test set in one pass and keeps all
# predictions, because they are written out together.
import io

import numpy as np

from common import share, until

rng = np.random.default_rng(0)
weights = rng.normal(0, 0.05, (512, 256))
predictions = []
for i in until(per_second=30):
    x = rng.normal(size=(256, 512))
    if share() < 0.85:
        weights += 1e-4 * x.T @ (x[:, :256] - x @ weights)
    else:
        predictions.append((x @ weights).repeat(4, axis=0))
out = io.BytesIO()
np.save(out, np.concatenate(predictions or [weights]))
print("predicted", len(predictions), "norm", round(float(np.linalg.norm(weights)), 3))
