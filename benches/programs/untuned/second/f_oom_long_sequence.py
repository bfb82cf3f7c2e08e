# Bug: one sequence is far longer than the others; CUDA out of memory in the forward pass. oom
from net import *
torch.cuda.set_per_process_memory_fraction(12 / 140)
model, opt = make(); t0 = time.time()
for i in until():
    n = 256 if time.time() - t0 < SECONDS / 2 else 6000
    train_step(model, opt, batch(16, n))  # CULPRIT
