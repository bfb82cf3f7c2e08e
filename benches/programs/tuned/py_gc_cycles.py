# Clean: parsed documents are trees whose nodes know their parents, so they are freed by the cycle
# collector, some time later: memory rises and falls.
import random

from common import until


class Node:
    def __init__(self, parent, depth, rng):
        self.parent, self.text = parent, "x" * rng.randrange(200, 4000)
        self.children = [Node(self, depth - 1, rng) for _ in range(3)] if depth else []

    def size(self):
        return len(self.text) + sum(child.size() for child in self.children)


rng = random.Random(0)
total = 0
for i in until(per_second=30):
    total += Node(None, 5, rng).size()
print("characters", total)
