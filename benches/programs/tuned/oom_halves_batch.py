# Survives: the first batch is too large, the out-of-memory error is caught and the batch halved, as
# users do to find the largest batch. Exits with 0.
import torch

from common import until
from tiny import limit_device, make, need_cuda, tokens, train_step

need_cuda()
limit_device(6)
model, opt = make()
batch = 1024
for i in until():
    try:
        loss, _ = train_step(model, opt, tokens(batch))  # CULPRIT
    except torch.OutOfMemoryError:
        opt.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        batch //= 2
print(f"batch {batch} loss {loss.item():.1f}")
