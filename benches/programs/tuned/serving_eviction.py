# Clean: a server keeps hidden states per user and evicts the least recent above a budget of bytes;
# requests come in bursts and have very different lengths.
import collections
import random

import torch

from common import MIB, pause, until
from tiny import CUDA, LENGTH, RATE, make, tokens

random.seed(0)
model, _ = make()
model.eval()
budget, held, states, served = (2048 if CUDA else 20) * MIB, 0, collections.OrderedDict(), 0
with torch.no_grad():
    for i in until(RATE):
        for _ in range(random.choice([1, 1, 1, 6])):
            ids = tokens(1, random.choice([16, LENGTH, 2 * LENGTH, 8 * LENGTH]))
            user = random.randrange(100_000)
            state = model.embed(ids)
            for layer in model.layers:
                state = layer(state)
            model.head(state[:, -1])
            states[user] = state
            held += state.nbytes
            while held > budget:
                held -= states.popitem(last=False)[1].nbytes
            served += 1
        pause(random.choice([0.0, 0.002, 0.01]))
print(f"served {served} users {len(states)}")
