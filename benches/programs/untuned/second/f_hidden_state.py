# Bug: the recurrent state is carried over without detach; the graph grows with every step (retain_graph).
import os, time, torch
from torch import nn
cell = nn.GRUCell(256, 1024).cuda(); head = nn.Linear(1024, 10).cuda(); h = torch.zeros(64, 1024, device="cuda")
end = time.time() + float(os.environ.get("SCENARIO_S", "20")); n = 0
while time.time() < end:
    h = cell(torch.randn(64, 256, device="cuda"), h)  # CULPRIT holder h
    head(h).sum().item(); n += 1; time.sleep(.005)
print(n)
