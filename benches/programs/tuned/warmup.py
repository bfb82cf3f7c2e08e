# Clean: a convolutional network with cuDNN's search for the best kernels and a learning rate
# warm-up; the first steps take more memory than the others.
import torch
from torch import nn

from common import until
from tiny import CUDA, RATE, device

torch.backends.cudnn.benchmark = True
width, size, batch = (64, 64, 64) if CUDA else (16, 32, 8)
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
    nn.Conv2d(width, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
    nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10),
).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
warm_up = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min((step + 1) / 100, 1.0))
for i in until(RATE):
    x = torch.randn(batch, 3, size, size, device=device)
    loss = nn.functional.cross_entropy(model(x), torch.arange(batch, device=device) % 10)
    opt.zero_grad()
    loss.backward()
    opt.step()
    warm_up.step()
print(f"loss {loss.item():.2f}")
