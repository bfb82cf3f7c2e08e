"""Bug: weakref.finalize gets a bound method of the object itself, which so never dies."""

import random
import weakref

from parts import until


class Upload:
    def __init__(self, number, rnd):
        self.number = number
        self.parts = [rnd.randbytes(4096) for _ in range(8)]
        weakref.finalize(self, self.close)  # CULPRIT

    def close(self):
        self.parts.clear()

    def checksum(self):
        return sum(part[0] for part in self.parts) % 256


def main():
    rnd = random.Random(1)
    total = 0
    for n in until(90):
        upload = Upload(n, rnd)
        total += upload.checksum()
    print(total > 0)


if __name__ == "__main__":
    main()
