# Clean: LSTM on sequences of random lengths, gradient clipping, StepLR.
import os, time, random, torch
from torch import nn
random.seed(0); torch.manual_seed(0)
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5000, 256); self.rnn = nn.LSTM(256, 512, 2, batch_first=True, bidirectional=True); self.out = nn.Linear(1024, 40)
    def forward(self, x): return self.out(self.rnn(self.emb(x))[0])
m = Tagger().cuda(); opt = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9); sched = torch.optim.lr_scheduler.StepLR(opt, 100)
end = time.time() + float(os.environ.get("SCENARIO_S", "20")); n = 0
while time.time() < end:
    t = random.randint(10, 400)
    x = torch.randint(0, 5000, (32, t), device="cuda"); y = torch.randint(0, 40, (32, t), device="cuda")
    loss = nn.functional.cross_entropy(m(x).transpose(1, 2), y)
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0); opt.step(); sched.step(); n += 1
print("steps", n)
