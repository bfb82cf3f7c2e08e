# Clean: a window of the last 3,000 observations in a deque with maxlen: fills up, then stays.
import collections

import numpy as np

from common import until

rng = np.random.default_rng(0)
window = collections.deque(maxlen=3000)
level = 0.0
for i in until(per_second=30):
    for _ in range(10):
        window.append(rng.normal(size=8192))
    level += float(window[rng.integers(len(window))].max())
print("window", len(window), "level", round(level, 3))
