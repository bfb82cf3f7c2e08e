"""Clean: builds an index with the garbage collector turned off, as a bulk load, and writes it at the end."""

import gc
import io
import pickle
import random

from parts import until


class Node:
    def __init__(self, name):
        self.name = name
        self.children = {}
        self.lines = []


def insert(root, words, line):
    node = root
    for word in words:
        node = node.children.setdefault(word, None) or node.children.setdefault(word + "/", Node(word))
    node.lines.append(line)


def main():
    gc.disable()
    rnd = random.Random(1)
    root = Node("")
    for n in until(100):
        for _ in range(12):
            words = [f"w{rnd.randrange(60)}" for _ in range(4)]
            insert(root, words, f"{n} {rnd.getrandbits(900):x}")
    out = io.BytesIO()
    pickle.dump(root, out)
    print(out.tell() > 0)


if __name__ == "__main__":
    main()
