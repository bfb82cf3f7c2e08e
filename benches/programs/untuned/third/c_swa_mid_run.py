"""Clean: weight averaging (SWA) that adds a copy of the model in the middle of the run."""

import time

import torch
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

from parts import SECONDS, ConvNet, until


def batch():
    images = torch.randn(64, 3, 96, 96, device="cuda")
    return images, torch.randint(0, 10, (64,), device="cuda")


model = ConvNet(widths=(64, 128, 256, 512, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
average = swa_schedule = None

start = time.time()
for step in until(pause=0.005):
    images, labels = batch()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if average is None and time.time() - start > 0.55 * SECONDS:
        average = AveragedModel(model)
        swa_schedule = SWALR(optimizer, swa_lr=0.01, anneal_epochs=5)
        print("averaging from step", step, flush=True)
    if average is None:
        schedule.step()
    elif step % 20 == 0:
        average.update_parameters(model)
        swa_schedule.step()
update_bn([batch() for _ in range(20)], average)
print("averaged models", int(average.n_averaged), flush=True)
