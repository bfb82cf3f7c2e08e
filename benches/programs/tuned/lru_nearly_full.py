# Clean: features of a frozen encoder are cached on the device with a bound. Old keys come back more
# and more often, so the cache fills ever more slowly; it is nearly full at the end.
import collections
import random

import torch

from common import SECONDS, STEPS, until
from tiny import BATCH, CUDA, make, tokens

random.seed(0)
RATE = 60 if CUDA else 20
planned = STEPS or RATE * SECONDS
encoder, _ = make()
head = torch.nn.Linear(encoder.head.in_features, 2).to(encoder.head.weight.device)
opt = torch.optim.SGD(head.parameters(), lr=0.01)
cache, bound = collections.OrderedDict(), int(planned * 0.62)
for i in until(RATE):
    key = int(random.random() ** 1.5 * planned)
    if key not in cache:
        with torch.no_grad():
            x = encoder.embed(tokens(2 * BATCH if CUDA else 8 * BATCH))
            for layer in encoder.layers:
                x = layer(x)
        cache[key] = x
    cache.move_to_end(key)
    while len(cache) > bound:
        cache.popitem(last=False)
    loss = head(cache[key].mean(1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"cached {len(cache)} loss {loss.item():.3f}")
