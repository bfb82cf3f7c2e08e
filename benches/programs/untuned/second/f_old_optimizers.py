# Bug: a new optimizer for each "cycle", the old ones are kept in a list with their state.
from net import *
model, opt = make(); cycles = []
for i in until():
    if i % 25 == 24:
        cycles.append(opt); opt = torch.optim.AdamW(model.blocks[0].parameters(), 1e-4)  # CULPRIT-HOLDER cycles
    train_step(model, opt, batch(4, 64))
