"""Clean: a replay buffer as a list; it is overwritten from its start once it is full."""

import random

import numpy as np

from parts import SECONDS, until


class Replay:
    def __init__(self, capacity):
        self.capacity, self.position = capacity, 0
        self.memory = []

    def push(self, transition):
        if len(self.memory) < self.capacity:
            self.memory.append(transition)
        else:
            self.memory[self.position] = transition
        self.position = (self.position + 1) % self.capacity

    def sample(self, rnd, count):
        return [self.memory[rnd.randrange(len(self.memory))] for _ in range(count)]


def main():
    rng, rnd = np.random.default_rng(1), random.Random(1)
    replay = Replay(int(400 * SECONDS))
    state, value = rng.normal(size=(2, 600)), 0.0
    for _ in until(250):
        after = state * 0.99 + rng.normal(size=(2, 600)) * 0.1
        replay.push((state, rnd.randrange(4), rnd.random(), after))
        state = after
        value += sum(reward for _, _, reward, _ in replay.sample(rnd, 8))
    print(value > 0)


if __name__ == "__main__":
    main()
