"""Bug: continual learning; each task's head is added to the optimizer and never taken out of it."""

import torch
import torch.nn.functional as F
from torch import nn

from parts import ConvNet, until

CLASSES = 2000


def new_head():
    return nn.Linear(1024, CLASSES, device="cuda")  # CULPRIT


body = ConvNet(widths=(64, 128, 256, 1024)).cuda()
optimizer = torch.optim.SGD(body.stages.parameters(), lr=0.01)
head, task = None, 0
for step in until(pause=0.015):
    if step % 12 == 0:
        # The head of the previous task is not needed any more.
        head, task = new_head(), task + 1
        optimizer.add_param_group({"params": list(head.parameters()), "lr": 0.1})  # CULPRIT-HOLDER
    images = torch.randn(32, 3, 64, 64, device="cuda")
    labels = torch.randint(0, CLASSES, (32,), device="cuda")
    loss = F.cross_entropy(head(body.features(images)), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 120 == 0:
        print("step", step, "task", task, "loss", loss.item(), flush=True)
