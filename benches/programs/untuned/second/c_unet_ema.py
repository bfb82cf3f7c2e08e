# Clean: diffusion-like UNet, mixed precision with GradScaler, EMA started late, samples drawn now and then.
import os, time, copy, torch
from torch import nn
import torch.nn.functional as F
class Unet(nn.Module):
    def __init__(self, c=64):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 2*c, 3, 2, 1), nn.Conv2d(2*c, 2*c, 3, padding=1), nn.ConvTranspose2d(2*c, c, 4, 2, 1)
        self.o = nn.Conv2d(2*c, 3, 3, padding=1)
    def forward(self, x):
        h = F.silu(self.a(x)); z = F.silu(self.c(F.silu(self.b(h))))
        return self.o(torch.cat([h, F.silu(self.d(z))], 1))
net = Unet().cuda(); ema = None; opt = torch.optim.Adam(net.parameters(), 1e-4); scaler = torch.amp.GradScaler("cuda")
start = time.time(); S = float(os.environ.get("SCENARIO_S", "20")); i = 0
while time.time() - start < S:
    x = torch.randn(16, 3, 128, 128, device="cuda"); noise = torch.randn_like(x)
    with torch.autocast("cuda", torch.float16): loss = F.mse_loss(net(x + noise), noise)
    opt.zero_grad(set_to_none=True); scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
    if ema is None and time.time() - start > S / 3: ema = copy.deepcopy(net)
    if ema is not None:
        with torch.no_grad():
            for p, q in zip(ema.parameters(), net.parameters()): p.lerp_(q, .01)
    if i % 100 == 99:
        with torch.no_grad():
            s = torch.randn(32, 3, 128, 128, device="cuda")
            for _ in range(10): s = s - .1 * (ema or net)(s)
    i += 1
print("steps", i)
