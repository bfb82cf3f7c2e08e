# Clean: mixed precision with a gradient scaler and gradient clipping.
import torch

from common import until
from tiny import CUDA, RATE, VOCAB, device, make, tokens

model, opt = make()
scaler = torch.amp.GradScaler(device)
for i in until(RATE):
    ids = tokens()
    with torch.autocast(device, dtype=torch.float16 if CUDA else torch.bfloat16):
        logits = model(ids)
    loss = torch.nn.functional.cross_entropy(logits.float().view(-1, VOCAB), ids.view(-1))
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(f"loss {loss.item():.1f}")
