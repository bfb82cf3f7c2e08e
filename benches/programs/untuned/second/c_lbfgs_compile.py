# Clean: torch.compile with changing batch sizes, then LBFGS with a history for the last third.
import os, time, random, torch
from torch import nn
net = nn.Sequential(nn.Linear(128, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1)).cuda(); fast = torch.compile(net, dynamic=True)
opt = torch.optim.AdamW(net.parameters()); S = float(os.environ.get("SCENARIO_S", "20")); t0 = time.time(); i = 0; random.seed(1)
while time.time() - t0 < 2 * S / 3:
    x = torch.randn(random.randint(16, 256), 128, device="cuda"); l = fast(x).square().mean(); opt.zero_grad(); l.backward(); opt.step(); i += 1
opt = torch.optim.LBFGS(net.parameters(), history_size=10, max_iter=4); x = torch.randn(256, 128, device="cuda")
def closure(): opt.zero_grad(); l = (net(x) - 1).square().mean(); l.backward(); return l
while time.time() - t0 < S: opt.step(closure); i += 1
print(i)
