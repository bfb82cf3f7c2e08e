# Clean: evaluation with batches eight times as large as in training, every 100 steps. A high peak,
# and nothing stays.
import torch

from common import until
from tiny import BATCH, CUDA, RATE, loss_of, make, tokens, train_step

model, opt = make()
for i in until(RATE):
    loss, _ = train_step(model, opt, tokens())
    if i % (100 if CUDA else 40) == 20:
        model.eval()
        with torch.no_grad():
            validation = sum(loss_of(model, tokens(8 * BATCH))[0] for _ in range(4)) / 4
        model.train()
print(f"loss {loss.item():.2f} validation {validation.item():.2f}")
