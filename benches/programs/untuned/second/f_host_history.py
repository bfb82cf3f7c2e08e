# Bug: full logits are copied to the host each step "for analysis" and kept in a list on the trainer. host_leak
from net import *
class T: pass
t = T(); t.logits = []; model, opt = make()
for i in until():
    loss, logits = train_step(model, opt, batch(4, 128))
    t.logits.append(logits.detach()[:, -8:].float().cpu())  # CULPRIT
