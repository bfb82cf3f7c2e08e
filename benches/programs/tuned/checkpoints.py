# Clean: saves model and optimizer every 120 steps, and once in the run loads them again.
import io

import torch

from common import share, until
from tiny import CUDA, RATE, device, make, tokens, train_step

model, opt = make()
saved, resumed = io.BytesIO(), False
for i in until(RATE):
    loss, _ = train_step(model, opt, tokens())
    if i % (120 if CUDA else 30) == 10:
        saved = io.BytesIO()
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, saved)
    if share() > 0.5 and not resumed:
        resumed = True
        saved.seek(0)
        state = torch.load(saved, map_location=device)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        del state
print(f"loss {loss.item():.2f} resumed {resumed}")
