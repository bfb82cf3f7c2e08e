"""Clean: a data set decodes each image once and keeps it; it takes the whole run to see all once."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from parts import SECONDS, until


class Images(Dataset):
    def __init__(self, count):
        self.count = count
        self.decoded = {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index not in self.decoded:
            rng = np.random.default_rng(index)
            self.decoded[index] = torch.from_numpy(rng.random((3, 48, 48), dtype=np.float32))
        return self.decoded[index], index % 10


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images = Images(int(16 * 8 * SECONDS))
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    batches = iter(DataLoader(images, batch_size=16, shuffle=True))
    x, _ = next(batches)
    model(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in until(7):
        x, y = next(batches)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print("done")


if __name__ == "__main__":
    main()
