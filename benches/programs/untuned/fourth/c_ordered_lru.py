"""Clean: an LRU cache of its own with 8000 entries; about four fifths full at the end."""

import collections
import random

from parts import SECONDS, until


class Cache:
    def __init__(self, most):
        self.most = most
        self.entries = collections.OrderedDict()

    def get(self, key, make):
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key]
        value = make(key)
        self.entries[key] = value
        if len(self.entries) > self.most:
            self.entries.popitem(last=False)
        return value


def render(key):
    return random.Random(key).randbytes(14_000)


def main():
    rnd = random.Random(1)
    cache = Cache(int(180 * SECONDS))
    size = 0
    for _ in until(150):
        size += len(cache.get(f"{rnd.getrandbits(80):020x}", render))
    print(size > 0)


if __name__ == "__main__":
    main()
