# Clean: a pool of two processes works on jobs; its processes are replaced after 40 jobs each.
import multiprocessing
import random

from common import until


def count_words(seed):
    rng = random.Random(seed)
    words = ["w%d" % rng.randrange(5000) for _ in range(60_000)]
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return max(counts.values())


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    best = 0
    with multiprocessing.Pool(2, maxtasksperchild=40) as pool:
        for i in until(per_second=6):
            best = max(best, *pool.map(count_words, range(4 * i, 4 * i + 4), chunksize=1))
    print("most frequent", best)
