# Bug: each batch gets a shared memory segment of its own, and none is closed before the end.
import atexit
from multiprocessing import shared_memory

import numpy as np

from common import MIB, until

rng = np.random.default_rng(0)
segments = []


@atexit.register
def unlink():
    for segment in segments:
        segment.unlink()


total = 0.0
for i in until(per_second=20):
    segment = shared_memory.SharedMemory(create=True, size=MIB)
    segment.buf[:] = rng.integers(0, 255, MIB, dtype=np.uint8).tobytes()  # CULPRIT
    segments.append(segment)
    total += segment.buf[i] / 255
print("segments", len(segments), "total", round(total, 3))
