# Clean: keeps the scalar loss and accuracy of every step in Python lists, logs a line every 100 steps.
from net import *
import collections
model, opt = make(); history = collections.defaultdict(list)
for i in until():
    loss, logits = train_step(model, opt, batch(8, 128))
    history["loss"].append(loss.item()); history["acc"].append((logits.argmax(-1) == 0).float().mean().item())
    if i % 100 == 99: print(i, sum(history["loss"][-100:]) / 100, flush=True)
