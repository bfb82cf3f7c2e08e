# Bug: a callback per step closes over the batch; callbacks are never dropped.
from net import *
class Bus:
    def __init__(self): self.callbacks = []
    def on_end(self, f): self.callbacks.append(f)
bus = Bus(); model, opt = make()
for i in until():
    x = torch.randn(64, 1024, device="cuda")  # CULPRIT
    train_step(model, opt, batch(4, 64))
    bus.on_end(lambda x=x: x.sum())
