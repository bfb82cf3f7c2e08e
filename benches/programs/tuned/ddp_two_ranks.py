# Clean: two ranks with DistributedDataParallel over gloo, on one device if there is only one.
# Start with: torchrun --nproc-per-node 2 ddp_two_ranks.py
import datetime

import torch
import torch.distributed as dist

from common import counted
from tiny import VOCAB, make, tokens

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
model, _ = make(256, 2)
ddp = torch.nn.parallel.DistributedDataParallel(model)
opt = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
torch.manual_seed(dist.get_rank())
for i in counted(10):
    ids = tokens()
    loss = torch.nn.functional.cross_entropy(ddp(ids).view(-1, VOCAB), ids.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
if dist.get_rank() == 0:
    print(f"loss {loss.item():.2f}")
dist.destroy_process_group()
