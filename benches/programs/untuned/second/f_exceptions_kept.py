# Bug: failed batches' exceptions are kept for a report; their tracebacks hold the tensors of the frames.
from net import *
model, opt = make(); errors = []
def run(ids):
    feats = model.emb(ids).detach() * 2  # CULPRIT
    if int(ids[0, 0]) % 3 == 0: raise ValueError("bad batch")
    return train_step(model, opt, ids)
for i in until():
    try: run(batch(8, 128))
    except ValueError as e: errors.append(e)  # CULPRIT-HOLDER errors
