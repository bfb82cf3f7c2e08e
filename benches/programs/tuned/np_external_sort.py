# Clean: sorts blocks of a file that does not fit, 16 to 64 MiB at a time: large arrays come and go.
import os
import tempfile

import numpy as np

from common import until

rng = np.random.default_rng(0)
check = 0.0
with tempfile.TemporaryDirectory() as folder:
    for i in until(per_second=4):
        block = rng.random(rng.choice([2, 4, 8]) << 20)
        block.sort()
        np.save(os.path.join(folder, f"run{i % 4}.npy"), block)
        check += float(block[len(block) // 2])
print("check", round(check, 4))
