# No memory fault: steady memory, then an uncaught exception. Exits with 1.
import random

from common import until

rng = random.Random(0)
for i in until(per_second=30):
    rows = [rng.random() for _ in range(100_000)]
    best = max(rows)
print("best", round(best, 6), flush=True)
raise KeyError("learning_rate")
