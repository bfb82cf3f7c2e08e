"""Bug: a torchmetrics AUROC is computed at each epoch and never reset; it keeps all predictions."""

import torch
import torch.nn.functional as F
from torch import nn
from torchmetrics.classification import BinaryAUROC

from parts import until

STEPS_PER_EPOCH = 100


def conv(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.ReLU())


model = nn.Sequential(conv(3, 32), conv(32, 64), conv(64, 32), nn.Conv2d(32, 1, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
auroc = BinaryAUROC().cuda()
for step in until(pause=0.02):
    images = torch.randn(4, 3, 80, 80, device="cuda")
    masks = (images.mean(1, keepdim=True) > 0.1).long()  # CULPRIT
    logits = model(images)
    loss = F.binary_cross_entropy_with_logits(logits, masks.float())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    auroc.update(logits.detach().sigmoid(), masks)  # CULPRIT-HOLDER
    if step % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1:
        print("epoch", step // STEPS_PER_EPOCH, "AUROC", auroc.compute().item(), flush=True)
