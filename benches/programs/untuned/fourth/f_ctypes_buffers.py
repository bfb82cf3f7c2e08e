"""Bug: a binding to a C library asks for a buffer per frame and never frees it."""

import ctypes

import numpy as np

from parts import until

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
SIZE = 48 * 1024


def decode(frame):
    buffer = libc.malloc(SIZE)  # CULPRIT
    ctypes.memmove(buffer, frame.tobytes(), SIZE)
    view = (ctypes.c_uint8 * SIZE).from_address(buffer)
    return int(np.frombuffer(view, np.uint8).sum())


def main():
    rng = np.random.default_rng(1)
    total = 0
    for _ in until(60):
        total += decode(rng.integers(0, 255, SIZE, dtype=np.uint8))
    print(total > 0)


if __name__ == "__main__":
    main()
