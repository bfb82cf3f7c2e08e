# Bug: with two ranks, only rank 1 keeps the outputs of each step (it "does the logging").
# Start with: torchrun --nproc-per-node 2 rank_leak_ddp.py
import datetime

import torch
import torch.distributed as dist

from common import counted
from tiny import CUDA, VOCAB, make, tokens

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
model, _ = make(256, 2)
ddp = torch.nn.parallel.DistributedDataParallel(model)
opt = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
torch.manual_seed(dist.get_rank())
kept = []
for i in counted(10):
    ids = tokens()
    logits = ddp(ids)
    loss = torch.nn.functional.cross_entropy(logits.view(-1, VOCAB), ids.view(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if dist.get_rank() == 1:
        kept.append(logits.detach()[:, :: 16 if CUDA else 1].clone())  # CULPRIT
if dist.get_rank() == 0:
    print(f"loss {loss.item():.2f}")
dist.destroy_process_group()
