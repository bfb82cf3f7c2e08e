"""Clean: functools.lru_cache with a maxsize; two thirds full at the end."""

import functools
import random

from parts import until


@functools.lru_cache(maxsize=10_000)
def profile(user):
    return random.Random(user).randbytes(20_000)


def main():
    rnd = random.Random(1)
    size = 0
    for _ in until(150):
        size += len(profile(rnd.getrandbits(64)))
    print(size > 0)


if __name__ == "__main__":
    main()
