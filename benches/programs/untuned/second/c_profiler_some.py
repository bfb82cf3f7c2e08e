# Clean: uses torch.profiler for a few steps in the middle.
from net import *
from torch.profiler import profile, ProfilerActivity
model, opt = make(); t0 = time.time(); done = False
for i in until():
    if not done and time.time() - t0 > SECONDS / 2:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            for _ in range(3): train_step(model, opt, batch(4, 128))
        prof.key_averages().table(row_limit=5); done = True
    train_step(model, opt, batch(8, 256))
