# Clean: torch.compile; it compiles before the loop, for the usual batch and for the shorter last one.
import torch

from common import until
from tiny import BATCH, RATE, make, tokens, train_step

model, opt = make(layers=1)
compiled = torch.compile(model)
for batch in (BATCH, BATCH // 2):
    train_step(compiled, opt, tokens(batch))
for i in until(RATE):
    batch = BATCH // 2 if i % 50 == 49 else BATCH
    loss, _ = train_step(compiled, opt, tokens(batch))
print(f"loss {loss.item():.2f}")
