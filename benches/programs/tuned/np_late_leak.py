# Bug: in the second half of the run failed requests are kept for a retry that never comes.
import numpy as np

from common import share, until

rng = np.random.default_rng(0)
retry = []
total = 0.0
for i in until(per_second=50):
    request = rng.normal(size=(256, 512))
    total += float(np.tanh(request).mean())
    if share() > 0.5:
        retry.append(request)  # CULPRIT-HOLDER
print("total", round(total, 4))
