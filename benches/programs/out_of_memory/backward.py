# The forward pass fits into 5 GiB, the gradients of the backward pass do not. The error is caught,
# and the program ends by itself.
import torch
from torch import nn

torch.manual_seed(0)
torch.cuda.set_per_process_memory_fraction(5 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False) for _ in range(16))).cuda()
inputs = torch.rand(1024, 8192, device="cuda")
for step in range(60):
    model[0](inputs[:8])
loss = model(inputs).pow(2).mean()
try:
    loss.backward()  # FAILS
except torch.OutOfMemoryError:
    print("caught", flush=True)
for step in range(60):
    model[0](inputs[:8].detach())
