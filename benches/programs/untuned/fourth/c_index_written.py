"""Clean: an inverted index is built over the whole run and written at the end."""

import collections
import io
import json
import random

from parts import until


class Index:
    def __init__(self):
        self.postings = collections.defaultdict(list)
        self.lengths = []

    def add(self, document, words):
        for position, word in enumerate(words):
            self.postings[word].append((document, position))
        self.lengths.append(len(words))

    def write(self, out):
        json.dump({"postings": self.postings, "lengths": self.lengths}, out)


def main():
    rnd = random.Random(1)
    index = Index()
    for n in until(60):
        index.add(n, [f"t{rnd.randrange(20_000)}" for _ in range(300)])
    out = io.StringIO()
    index.write(out)
    print(out.tell() > 0)


if __name__ == "__main__":
    main()
