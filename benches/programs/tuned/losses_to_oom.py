# Bug: a regularization loss is collected for a plot with its graph, until the limit of 6 GiB is
# reached. Ends with an out-of-memory error, exit code 1.
import torch

from common import endless
from tiny import limit_device, make, need_cuda, tokens, train_step

need_cuda()
limit_device(6)
model, opt = make()
penalties = []
print("training", flush=True)
for i in endless(per_second=80):
    train_step(model, opt, tokens())
    penalties.append(torch.tanh(model.head.weight[:2000] * 3).pow(2).sum())  # CULPRIT
