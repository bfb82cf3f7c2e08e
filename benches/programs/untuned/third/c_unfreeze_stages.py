"""Clean: fine-tuning unfreezes two more layers at each stage; gradients and Adam state grow."""

import time

import torch
import torch.nn.functional as F

from parts import SECONDS, VOCAB, TextClassifier, until

model = TextClassifier(width=768, layers=8).cuda()
for parameter in model.parameters():
    parameter.requires_grad_(False)
for parameter in model.head.parameters():
    parameter.requires_grad_(True)
optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
frozen = list(model.blocks)

start = time.time()
stage = 0
for _ in until(pause=0.005):
    # A stage every sixth of the time: the last one begins when two thirds of it are over.
    if frozen and time.time() - start > (stage + 1) * SECONDS / 6:
        stage += 1
        for block in (frozen.pop(), frozen.pop()):
            for parameter in block.parameters():
                parameter.requires_grad_(True)
            optimizer.add_param_group({"params": list(block.parameters()), "lr": 1e-4})
        print("stage", stage, "frozen blocks", len(frozen), flush=True)
    tokens = torch.randint(0, VOCAB, (16, 128), device="cuda")
    labels = torch.randint(0, 20, (16,), device="cuda")
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
