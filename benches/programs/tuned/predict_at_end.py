# Clean: trains, then predicts the test set in one pass. The predictions are collected on the device
# and written out at the end.
import torch

from common import share, until
from tiny import CUDA, RATE, make, tokens, train_step

model, opt = make()
predictions = []
for i in until(RATE):
    if share() < 0.85:
        loss, _ = train_step(model, opt, tokens())
    else:
        with torch.no_grad():
            predictions.append(model(tokens())[:, :: 16 if CUDA else 1])
written = torch.cat(predictions).cpu() if predictions else torch.zeros(1)
print(f"loss {loss.item():.2f} predicted {len(written) > 1}")
