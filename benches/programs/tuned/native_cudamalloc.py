# Bug: a native library, called through ctypes, takes 8 MiB of device memory every fifth step with
# cudaMalloc and never frees it. PyTorch's allocator does not know of it.
import ctypes

import torch

from common import MIB, until
from tiny import make, need_cuda, tokens, train_step

need_cuda()
runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
model, opt = make()
for i in until():
    loss, _ = train_step(model, opt, tokens())
    if i % 5 == 0:
        pointer = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(8 * MIB))  # CULPRIT
print(f"loss {loss.item():.2f}")
