# Bug: the learning rate restarts with a fresh copy of the head and a fresh optimizer every 20
# steps (every 2 on the CPU); the old ones, with their moments, stay in a list.
import copy

import torch

from common import until
from tiny import CUDA, RATE, VOCAB, make, tokens

model, opt = make()
every = 20 if CUDA else 2
restarts = []
for i in until(RATE or 60):
    if i % every == 0:
        model.head = copy.deepcopy(model.head)
        opt = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
        restarts.append(opt)  # CULPRIT-HOLDER
    ids = tokens()
    with torch.no_grad():
        x = model.embed(ids)
    loss = torch.nn.functional.cross_entropy(model.head(x).view(-1, VOCAB), ids.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"loss {loss.item():.2f} restarts {len(restarts)}")
