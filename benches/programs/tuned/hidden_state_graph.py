# Bug: the hidden state of a recurrent network is carried over without detach, and backward is called
# with retain_graph=True, so the graph of all steps stays. Only the head is trained.
import torch
from torch import nn

from common import until
from tiny import CUDA, device

width, batch = (512, 512) if CUDA else (128, 256)
cell, head = nn.GRUCell(width, width).to(device), nn.Linear(width, 1).to(device)
opt = torch.optim.SGD(head.parameters(), lr=0.01)
hidden = torch.zeros(batch, width, device=device)
for i in until(20 if CUDA else 10):
    x = torch.randn(batch, width, device=device)
    hidden = cell(x, hidden)  # CULPRIT
    loss = head(hidden).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
print(f"loss {loss.item():.3f}")
