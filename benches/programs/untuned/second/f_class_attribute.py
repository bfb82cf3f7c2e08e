# Bug: a class attribute used as a default list collects every batch's embeddings.
from net import *
class Trainer:
    seen = []
    def __init__(self): self.model, self.opt = make()
    def step(self, ids):
        loss, logits = train_step(self.model, self.opt, ids)
        self.seen.append(logits[:, 0].detach().float())  # CULPRIT
        return loss.item()
t = Trainer()
for i in until(): t.step(batch(8, 128))
