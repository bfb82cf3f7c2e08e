"""Clean: training with torch.compile, whose compiler starts a pool of processes."""

import torch
import torch.nn.functional as F

from parts import until


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @torch.compile
    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    for step in until(30):
        x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
    print("done")


if __name__ == "__main__":
    main()
