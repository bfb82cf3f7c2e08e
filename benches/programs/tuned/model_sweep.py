# Clean: a sweep over widths; each model is larger than the one before, which is freed first.
import gc

import torch

from common import share, until
from tiny import CUDA, RATE, make, tokens, train_step

widths = [128, 256, 384, 512, 768, 1024, 1280] if CUDA else [16, 32, 64, 96, 128, 160, 192]
results, width = {}, None
for i in until(RATE):
    wanted = widths[min(int(share() * len(widths)), len(widths) - 1)]
    if wanted != width:
        width, model, opt = wanted, None, None
        gc.collect()
        torch.manual_seed(0)
        model, opt = make(width)
    loss, _ = train_step(model, opt, tokens())
    results[width] = loss.item()
print("widths", len(results), f"last {results[width]:.1f}")
