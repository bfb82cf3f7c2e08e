"""Bug: dropping every second clip leaves holes in all segments; a large cat then has no room."""

import torch

from parts import SECONDS, limit_memory, until

CLIPS, ROWS, WIDTH = 480, 4864, 512

limit_memory(6)
frames = torch.empty(ROWS, 256, device="cuda")
projection = torch.randn(256, WIDTH, device="cuda") / 16
bank = []  # CULPRIT-HOLDER


def encode():
    frames.normal_()
    return frames @ projection


def nearest(query):
    """Compares with one clip after the other, which needs little memory."""
    return min(range(len(bank)), key=lambda n: (bank[n][0] - query).square().sum().item())


for _ in until(pause=0.4 * SECONDS / CLIPS, seconds=0.6 * SECONDS):
    if len(bank) < CLIPS:
        bank.append(encode())
print("clips", len(bank), flush=True)

# Consecutive clips are similar: every second one is enough.
bank = bank[::2]
for number in until(pause=0.1, seconds=0.2 * SECONDS):
    print("query", number, "nearest", nearest(encode()[0]), flush=True)

table = torch.cat(bank)  # CULPRIT
norms = table.norm(dim=1)
print("rows", len(norms), flush=True)
