"""Clean: a vocabulary with counts and contexts grows fast at first and is complete in the end."""

import random

from parts import SECONDS, until

vocabulary = {}
counts = {}


def see(word, line):
    if word not in vocabulary:
        vocabulary[word] = len(vocabulary)
        counts[word] = [0, [line[k : k + 40] for k in range(0, len(line), 4)]]
    counts[word][0] += 1
    return vocabulary[word]


def main():
    rnd = random.Random(1)
    size = int(500 * SECONDS)
    total = 0
    for n in until(100):
        line = " ".join(f"w{min(rnd.randrange(size), rnd.randrange(size)):06d}" for _ in range(14))
        for word in line.split():
            total += see(word, line)
    print(total > 0)


if __name__ == "__main__":
    main()
