# Bug: after half of the run "hard examples" are kept with their outputs; before that the level is
# flat.
from common import share, until
from tiny import CUDA, RATE, make, tokens, train_step

model, opt = make()
hard = []
for i in until(RATE):
    loss, logits = train_step(model, opt, tokens())
    if share() > 0.5 and (i % 3 == 0 or not CUDA):
        hard.append(logits[:, :: 32 if CUDA else 1].clone())  # CULPRIT
print(f"loss {loss.item():.2f}")
