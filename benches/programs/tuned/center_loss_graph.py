# Bug: a center loss updates its center from features with their graph, so each center keeps the graph of
# the center before. The lines that allocate are those of the model; only the assignment is at fault.
import torch
from torch import nn

from common import until
from tiny import CUDA, device

width, batch = (512, 512) if CUDA else (128, 128)


class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = torch.zeros(width, device=device)

    def forward(self, features):
        distance = (features - self.center.detach()).pow(2).mean()
        self.center = 0.9 * self.center + 0.1 * features.mean(0)  # CULPRIT-HOLDER
        return distance


model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).to(device)
criterion = CenterLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for i in until(20 if CUDA else 10):
    features = model(torch.randn(batch, width, device=device))
    loss = criterion(features)
    opt.zero_grad()
    loss.backward(retain_graph=True)
    opt.step()
print(f"loss {loss.item():.3f}")
