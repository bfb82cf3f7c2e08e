# Bug: the workers of a DataLoader are kept alive between epochs and append all that they read to a
# list. The main process and the device are fine.
import torch
from torch.utils.data import DataLoader, IterableDataset

from common import until
from tiny import BATCH, LENGTH, VOCAB, device, make, train_step


class Stream(IterableDataset):
    def __init__(self):
        self.seen = []

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        generator = torch.Generator().manual_seed(worker.id)
        for _ in range(50 * BATCH):
            document = torch.randint(0, VOCAB, (400_000 // BATCH // 2,), generator=generator)
            self.seen.append(document)  # CULPRIT-HOLDER
            yield document[:LENGTH]


def epochs():
    loader = DataLoader(Stream(), BATCH, num_workers=2, persistent_workers=True)
    while True:
        yield from loader


model, opt = make()
batches = epochs()
for i in until(15):
    loss, _ = train_step(model, opt, next(batches).to(device))
batches.close()
print(f"loss {loss.item():.2f}")
