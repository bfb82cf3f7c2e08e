"""Bug: the mean loss of the run is summed up as a tensor with its graph."""

import torch
import torch.nn.functional as F

from parts import until


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = torch.zeros(())
    for step in until(20):
        x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total = total + loss  # CULPRIT
    print(total.item() > 0)


if __name__ == "__main__":
    main()
