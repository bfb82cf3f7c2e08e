# Clean: PPO-like: rollouts collected into preallocated buffers on the GPU, several epochs of updates, buffers reused.
import os, time, torch
from torch import nn
T, N, O = 256, 512, 64
pi = nn.Sequential(nn.Linear(O, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 9)).cuda()
opt = torch.optim.Adam(pi.parameters(), 3e-4)
obs = torch.zeros(T, N, O, device="cuda"); adv = torch.zeros(T, N, device="cuda"); act = torch.zeros(T, N, dtype=torch.long, device="cuda")
end = time.time() + float(os.environ.get("SCENARIO_S", "20")); it = 0
while time.time() < end:
    with torch.no_grad():
        o = torch.randn(N, O, device="cuda")
        for t in range(T):
            obs[t] = o; act[t] = torch.distributions.Categorical(logits=pi(o)[:, :8]).sample(); o = o + .1 * torch.randn_like(o); adv[t] = torch.randn(N, device="cuda")
    for _ in range(4):
        for idx in torch.randperm(T * N, device="cuda").chunk(4):
            out = pi(obs.view(-1, O)[idx]); lp = torch.log_softmax(out[:, :8], -1).gather(1, act.view(-1)[idx, None]).squeeze(1)
            loss = -(lp * adv.view(-1)[idx]).mean() + out[:, 8].square().mean(); opt.zero_grad(); loss.backward(); opt.step()
    it += 1
print(it)
