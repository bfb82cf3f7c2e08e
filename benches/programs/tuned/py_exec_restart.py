# Clean: a supervisor loads its settings, then replaces itself by the program proper with os.execv.
import os
import random
import sys

from common import until

if len(sys.argv) == 1:
    settings = {n: "value %d" % n for n in range(100_000)}
    print("settings", len(settings), flush=True)
    os.execv(sys.executable, [sys.executable, __file__, "serve"])

rng = random.Random(0)
total = 0
for i in until(per_second=30):
    body = b"x" * rng.randrange(1 << 20, 8 << 20)
    total += len(body)
print("served", total)
