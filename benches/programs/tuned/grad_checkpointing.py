# Clean: activations are computed again in the backward pass (torch.utils.checkpoint).
import torch
from torch.utils.checkpoint import checkpoint

from common import until
from tiny import RATE, VOCAB, make, tokens

model, opt = make()
for i in until(RATE):
    ids = tokens()
    x = model.embed(ids)
    for layer in model.layers:
        x = checkpoint(layer, x, use_reentrant=False)
    loss = torch.nn.functional.cross_entropy(model.head(x).view(-1, VOCAB), ids.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"loss {loss.item():.2f}")
