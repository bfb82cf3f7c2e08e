"""Bug: the results of a process pool are kept as handles; each keeps its value after it was read."""

import multiprocessing
import random

from parts import until


def thumbnail(seed):
    rnd = random.Random(seed)
    return rnd.randbytes(24_000)


def main():
    handles = []
    size = 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for n in until(100):
            handle = pool.apply_async(thumbnail, (n,))
            handles.append(handle)  # CULPRIT-HOLDER
            if n >= 20:
                size += len(handles[n - 20].get())
    print(size > 0)


if __name__ == "__main__":
    main()
