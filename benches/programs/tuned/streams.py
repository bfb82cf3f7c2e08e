# Clean: batches are prepared on one stream, copied on a second, used on a third.
import torch

from common import until
from tiny import BATCH, LENGTH, VOCAB, make, need_cuda, train_step

need_cuda()
model, opt = make()
prepare, copy = torch.cuda.Stream(), torch.cuda.Stream()
host = torch.randint(0, VOCAB, (BATCH, LENGTH)).pin_memory()
for i in until():
    with torch.cuda.stream(copy):
        copied = host.to("cuda", non_blocking=True)
    with torch.cuda.stream(prepare):
        prepare.wait_stream(copy)
        noise = torch.rand(BATCH, LENGTH, device="cuda") < 0.1
        ids = torch.where(noise, torch.zeros_like(copied), copied)
    copied.record_stream(prepare)
    torch.cuda.current_stream().wait_stream(prepare)
    ids.record_stream(torch.cuda.current_stream())
    loss, _ = train_step(model, opt, ids)
print(f"loss {loss.item():.1f}")
