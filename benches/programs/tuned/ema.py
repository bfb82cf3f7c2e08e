# Clean: two averaged copies of the model; the second one starts after a third of the run.
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from common import share, until
from tiny import RATE, make, tokens, train_step

model, opt = make()
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
swa = None
for i in until(RATE):
    loss, _ = train_step(model, opt, tokens())
    ema.update_parameters(model)
    if share() > 0.33 and i % 10 == 0:
        swa = swa or AveragedModel(model)
        swa.update_parameters(model)
norm = torch.cat([p.detach().flatten() for p in ema.parameters()]).norm().item()
print(f"loss {loss.item():.2f} norm {norm:.1f}")
