# Bug: validation features are cached per epoch under a new key; starts after a third of the run.
from net import *
model, opt = make(); feature_bank = {}; t0 = time.time()
def validate(epoch):
    with torch.no_grad():
        feature_bank[f"epoch{epoch}"] = model.emb(batch(32, 256)).half()  # CULPRIT
for i in until():
    train_step(model, opt, batch(8, 128))
    if time.time() - t0 > SECONDS / 3 and i % 10 == 0: validate(i // 10)
