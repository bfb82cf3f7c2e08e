# Clean: progressive resizing, four image sizes, each for a quarter of the run.
import os, time, torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).cuda()
opt = torch.optim.AdamW(net.parameters()); S = float(os.environ.get("SCENARIO_S", "20")); t0 = time.time(); i = 0
while (t := time.time() - t0) < S:
    size = (96, 128, 192, 256)[min(3, int(4 * t / S))]
    x = torch.randn(32, 3, size, size, device="cuda"); y = torch.randint(0, 10, (32,), device="cuda")
    loss = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step(); i += 1
print(i)
