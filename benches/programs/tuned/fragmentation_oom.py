# Bug: a bank of features is filled during training, and every second entry is dropped again. The
# entries get larger, so that new ones do not fit into the holes. What is left lies in all segments,
# so a third of the cached memory cannot be used for the large buffer that evaluation needs: 3 GiB,
# with 3.5 GiB of 7 GiB in use. Ends with an out-of-memory error, exit code 1.
import torch

from common import MIB, SECONDS, STEPS, endless
from tiny import limit_device, make, need_cuda, tokens, train_step

need_cuda()
limit_device(7)
model, opt = make()
bank, evaluate_at = [], max(STEPS or int(30 * SECONDS), 300)
for i in endless(per_second=40):
    loss, _ = train_step(model, opt, tokens())
    if i % 4 == 0 and len(bank) < 512:
        size = 2 * MIB + len(bank) * MIB // 64  # 2 to 10 MiB: the pictures get larger
        rows = [torch.rand(size // 4, device="cuda") for _ in range(16)]
        bank.extend(rows[::2])  # CULPRIT-HOLDER
        del rows
    if i == evaluate_at:
        print(f"loss {loss.item():.2f}", flush=True)
        scores = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
