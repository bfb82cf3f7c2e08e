# Clean: DataLoader with two workers, pinned memory and prefetching; the workers end with each epoch.
import torch
from torch.utils.data import DataLoader, Dataset

from common import until
from tiny import BATCH, CUDA, LENGTH, RATE, VOCAB, device, make, train_step


class Rows(Dataset):
    def __len__(self):
        return 200 * BATCH if CUDA else 50 * BATCH

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, VOCAB, (LENGTH,), generator=generator)


def epochs():
    loader = DataLoader(Rows(), BATCH, shuffle=True, num_workers=2, pin_memory=CUDA, prefetch_factor=4)
    while True:
        yield from loader


model, opt = make()
batches = epochs()
for i in until(RATE):
    loss, _ = train_step(model, opt, next(batches).to(device, non_blocking=True))
batches.close()
print(f"loss {loss.item():.2f}")
