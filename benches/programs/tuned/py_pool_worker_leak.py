# Bug: a cache at module level, in the processes of a pool. The program itself stays small.
import multiprocessing
import random

from common import until

seen = {}


def tokenize(document):
    rng = random.Random(document)
    seen[document] = [rng.randrange(50_000) for _ in range(12_000)]  # CULPRIT
    return len(set(seen[document]))


if __name__ == "__main__":
    total = 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for i in until(per_second=10):
            total += sum(pool.map(tokenize, range(4 * i, 4 * i + 4), chunksize=1))
    print("distinct", total)
