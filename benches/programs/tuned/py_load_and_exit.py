# Clean: loads an index into a dictionary for nearly the whole run, looks up some keys, exits with 0.
import random

from common import share, until

rng = random.Random(0)
index = {}
hits = 0
for i in until(per_second=20):
    if share() < 0.85:
        for row in range(1500):
            index[i * 1500 + row] = (f"document {i} {row}", rng.random(), ("%d " % row) * 100)
    else:
        hits += sum(rng.randrange(2 * len(index)) in index for _ in range(20_000))
print("rows", len(index), "hits", hits)
