# Clean: Q-learning with a replay buffer on the device; it fills in the first half of the run, then
# the oldest transitions are dropped.
import collections
import random

import torch
from torch import nn

from common import SECONDS, STEPS, until
from tiny import CUDA, device

random.seed(0)
RATE = 100 if CUDA else 20
size = (64, 4, 84, 84) if CUDA else (16, 1, 64, 64)
q = nn.Sequential(
    nn.Conv2d(size[1], 16, 8, 4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, 6)
)
q.to(device)(torch.zeros(size, device=device))
opt = torch.optim.Adam(q.parameters())
memory = collections.deque(maxlen=int((STEPS or RATE * SECONDS) / 2))
for i in until(RATE):
    states = torch.rand(size, device=device)
    with torch.no_grad():
        actions = q(states).argmax(1)
    memory.append((states, actions, states.mean((1, 2, 3))))
    s, a, r = random.choice(memory)
    loss = (q(s).gather(1, a[:, None])[:, 0] - r).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"stored {len(memory)} loss {loss.item():.3f}")
