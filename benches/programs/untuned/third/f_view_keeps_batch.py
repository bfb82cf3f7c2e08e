"""Bug: hard example mining keeps one image per batch as a view, which keeps the whole batch."""

import torch
import torch.nn.functional as F

from parts import ConvNet, until

LIMIT = 20_000

model = ConvNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
hard = []
for step in until(pause=0.015):
    images = torch.randn(24, 3, 128, 128, device="cuda")  # CULPRIT
    labels = torch.randint(0, 10, (24,), device="cuda")
    losses = F.cross_entropy(model(images), labels, reduction="none")
    optimizer.zero_grad(set_to_none=True)
    losses.mean().backward()
    optimizer.step()
    # Every sixth batch gives one image to look at later; 20000 small images would fit.
    if step % 6 == 0 and len(hard) < LIMIT:
        worst = losses.argmax().item()
        hard.append((images[worst], labels[worst]))  # CULPRIT-HOLDER
    if step % 120 == 0:
        print("step", step, "loss", losses.mean().item(), "hard", len(hard), flush=True)
