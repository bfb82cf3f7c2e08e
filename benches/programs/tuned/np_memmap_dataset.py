# Clean: random batches of a data set that lies in a mapped file of 400 MiB. The pages of the file
# become resident, and the kernel can drop them at any time.
import os
import tempfile

import numpy as np

from common import until

rng = np.random.default_rng(0)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "train.bin")
    with open(path, "wb") as file:
        for _ in range(100):
            file.write(rng.integers(0, 255, 4 << 20, dtype=np.uint8).tobytes())
    rows = np.memmap(path, dtype=np.uint8, mode="r", shape=(100 * 1024, 4096))
    weights, loss = np.zeros(4096), 0.0
    for i in until(per_second=40):
        x = rows[np.sort(rng.integers(0, len(rows), 128))] / 255.0
        error = x @ weights - x[:, 0]
        weights -= 1e-4 * x.T @ error / len(x)
        loss = float((error**2).mean())
    del rows
print("loss", round(loss, 4))
