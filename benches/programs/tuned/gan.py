# Clean: a GAN with two optimizers, whose steps alternate and leave different levels of memory.
import torch
from torch import nn
from torch.nn.functional import softplus

from common import until
from tiny import CUDA, RATE, device

width, batch = (2048, 512) if CUDA else (256, 64)
generator = nn.Sequential(
    nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 784)
).to(device)
critic = nn.Sequential(
    nn.Linear(784, width), nn.LeakyReLU(), nn.Linear(width, width), nn.LeakyReLU(), nn.Linear(width, 1)
).to(device)
opt_g = torch.optim.Adam(generator.parameters(), 1e-4, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.5, 0.9))
for i in until(RATE):
    real = torch.rand(batch, 784, device=device)
    for _ in range(2):
        fake = generator(torch.randn(batch, 64, device=device)).detach()
        loss_c = softplus(-critic(real)).mean() + softplus(critic(fake)).mean()
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
    loss_g = softplus(-critic(generator(torch.randn(batch, 64, device=device)))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
print(f"critic {loss_c.item():.1f} generator {loss_g.item():.1f}")
