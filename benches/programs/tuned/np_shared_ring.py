# Clean: a producer process hands batches over in a ring of shared memory of 96 MiB that is made once.
import multiprocessing
from multiprocessing import shared_memory

import numpy as np

from common import until

SLOTS, SHAPE = 12, (8, 1024, 128)


def produce(name, free, full):
    memory = shared_memory.SharedMemory(name)
    ring = np.ndarray((SLOTS, *SHAPE), np.float64, memory.buf)
    rng = np.random.default_rng(0)
    while (slot := free.get()) is not None:
        ring[slot] = rng.normal(size=SHAPE)
        full.put(slot)
    del ring
    memory.close()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    memory = shared_memory.SharedMemory(create=True, size=SLOTS * 8 * 8 * 1024 * 128)
    ring = np.ndarray((SLOTS, *SHAPE), np.float64, memory.buf)
    free, full = context.Queue(), context.Queue()
    producer = context.Process(target=produce, args=(memory.name, free, full))
    producer.start()
    for slot in range(SLOTS):
        free.put(slot)
    total = 0.0
    for i in until(per_second=20):
        slot = full.get()
        total += float(ring[slot].mean())
        free.put(slot)
    free.put(None)
    producer.join()
    del ring
    memory.close()
    memory.unlink()
    print("total", round(total, 6))
