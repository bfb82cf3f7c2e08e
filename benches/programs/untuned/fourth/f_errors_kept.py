"""Bug: failures are kept as exceptions, whose tracebacks keep the rows of the batch."""

import random

from parts import until


class Importer:
    def __init__(self):
        self.failures = []
        self.rows = 0

    def parse(self, rows):
        table = [row.split(",") for row in rows]
        return [(int(a), float(b), c) for a, b, c in table]

    def load(self, rows):
        try:
            self.rows += len(self.parse(rows))
        except ValueError as error:
            self.failures.append(error)  # CULPRIT-HOLDER


def main():
    rnd = random.Random(1)
    importer = Importer()
    for n in until(30):
        rows = [f"{k},{rnd.random()},{rnd.getrandbits(64):x}" for k in range(400)]
        if n % 2:
            rows[200] = "?,?,?"
        importer.load(rows)
    print(importer.rows > 0, len(importer.failures) > 0)


if __name__ == "__main__":
    main()
