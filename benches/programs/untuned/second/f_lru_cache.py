# Bug: functools.lru_cache(maxsize=None) over positions that never repeat keeps GPU tensors.
from net import *
import functools
@functools.lru_cache(maxsize=None)
def position_bias(offset, length):
    i = torch.arange(length, device="cuda") + offset
    return (i[None] - i[:, None]).float()  # CULPRIT
model, opt = make()
for i in until():
    bias = position_bias(i, 256)
    loss, _ = loss_of(model, batch(8, 128)); (loss + 0 * bias.mean()).backward(); opt.step(); opt.zero_grad()
