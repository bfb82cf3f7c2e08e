# Clean: a loop with Accelerate: gradient accumulation, evaluation with gather, saved state.
import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from common import until
from tiny import BATCH, LENGTH, RATE, VOCAB, loss_of, make

accelerator = Accelerator(gradient_accumulation_steps=2)
model, opt = make()
rows = TensorDataset(torch.randint(0, VOCAB, (40 * BATCH, LENGTH)))
model, opt, loader = accelerator.prepare(model, opt, DataLoader(rows, BATCH))


def batches():
    while True:
        yield from loader


source = batches()
with tempfile.TemporaryDirectory() as folder:
    for i in until(RATE):
        (ids,) = next(source)
        with accelerator.accumulate(model):
            loss, _ = loss_of(model, ids)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
        if i % 50 == 30:
            with torch.no_grad():
                accelerator.gather(loss_of(model, ids)[0])
        if i % 300 == 140:
            accelerator.save_state(folder)
print(f"loss {loss.item():.1f}")
