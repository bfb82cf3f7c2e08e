# Bug: a slow leak, 2 MB/s, below work that takes and frees 30 MB at a time.
import random

from common import until

rng = random.Random(0)
audit = []
total = 0
for i in until(per_second=15):
    rows = [(n, rng.random()) for n in range(rng.choice([10_000, 100_000, 200_000]))]
    total += len(rows)
    audit.append(["row %d of %d" % (n, i) for n in range(2000)])  # CULPRIT
print("rows", total)
