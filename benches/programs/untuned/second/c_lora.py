# Clean: frozen base model, low-rank adapters, the adapters merged and reset twice during the run.
from net import *
class Lora(nn.Module):
    def __init__(self, lin, r=8):
        super().__init__(); self.lin = lin; self.a = nn.Parameter(torch.randn(r, lin.in_features) * .01); self.b = nn.Parameter(torch.zeros(lin.out_features, r))
    def forward(self, x): return self.lin(x) + x @ self.a.t() @ self.b.t()
torch.manual_seed(0); model = GPT()
for p in model.parameters(): p.requires_grad_(False)
for b in model.blocks: b.qkv, b.proj = Lora(b.qkv), Lora(b.proj)
model.cuda(); train = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.AdamW(train, 1e-3); merged = 0
t0 = time.time()
for i in until():
    loss, _ = train_step(model, opt, batch(8, 256))
    if merged < 2 and time.time() - t0 > (merged + 1) * SECONDS / 3:
        with torch.no_grad():
            for b in model.blocks:
                for l in (b.qkv, b.proj): l.lin.weight += l.b @ l.a; l.b.zero_()
        opt = torch.optim.AdamW(train, 1e-3); merged += 1
