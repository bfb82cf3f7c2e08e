"""Bug: a recommender registers a buffer for each new session and never removes one. A slow leak."""

import random

import torch
from torch import nn

from parts import until

random.seed(9)
ITEMS, WIDTH, HISTORY = 20_000, 512, 128


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.mix = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def history(self, session):
        name = f"session_{session}"
        if not hasattr(self, name):
            rows = torch.zeros(HISTORY, WIDTH, device="cuda")  # CULPRIT
            self.register_buffer(name, rows, persistent=False)  # CULPRIT-HOLDER
        return getattr(self, name)

    def forward(self, session, item):
        rows = self.history(session)
        rows.copy_(rows.roll(-1, 0))
        rows[-1] = self.items.weight[item]
        _, state = self.mix(rows.unsqueeze(0))
        return (self.items.weight @ state[0, 0]).topk(10).indices


model = Recommender().cuda().eval()
session = 0
for click in until(pause=0.02):
    if random.random() < 0.2:
        session += 1
    with torch.no_grad():
        best = model(session, random.randrange(ITEMS)).tolist()
    if click % 100 == 0:
        print("click", click, "session", session, "best", best[0], flush=True)
