# Bug: each batch is copied to a new pinned buffer, and the buffers are kept. Pinned host memory
# grows by 16 MB/s; the device is fine.
import torch

from common import until
from tiny import make, need_cuda, tokens, train_step

need_cuda()
model, opt = make()
buffers = []
for i in until(per_second=32):
    buffer = torch.empty(131_072, dtype=torch.float32).pin_memory()  # CULPRIT
    buffer.copy_(torch.rand(131_072))
    buffers.append(buffer)
    loss, _ = train_step(model, opt, tokens())
print(f"loss {loss.item():.2f} buffers {len(buffers)}")
