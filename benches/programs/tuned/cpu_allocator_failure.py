# Bug: outputs are kept in host memory until the process reaches its limit (RLIMIT_AS, +700 MiB).
# Ends with "DefaultCPUAllocator: can't allocate memory", exit code 1.
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch

from common import endless, limit_memory

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(256, 256)
outputs = []
print("predicting", flush=True)
model(torch.rand(4096, 256))
limit_memory(700)
for i in endless(per_second=20):
    with torch.no_grad():
        outputs.append(model(torch.rand(4096, 256)))  # CULPRIT
