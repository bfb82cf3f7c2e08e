# Bug: a new hook with its own buffer is registered at every evaluation and never removed.
from net import *
model, opt = make()
def watch(module):
    buf = torch.zeros(16, 1024, 1024, device="cuda")  # CULPRIT
    def hook(m, a, o): buf[0, 0, 0] += 1
    module.register_forward_hook(hook)
for i in until():
    train_step(model, opt, batch(4, 64))
    if i % 40 == 0: watch(model.blocks[0].mlp)
