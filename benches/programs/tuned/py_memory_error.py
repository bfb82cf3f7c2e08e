# Bug: a table is read into memory until the process reaches its limit (RLIMIT_AS, +600 MiB).
# Ends with MemoryError, exit code 1.
import random

from common import endless, limit_memory

limit_memory(600)
rng = random.Random(0)
table = []
print("reading", flush=True)
for i in endless(per_second=25):
    rows = [rng.random() for _ in range(500)]
    table.append(b"x" * (4_000_000 + len(rows)))  # CULPRIT
