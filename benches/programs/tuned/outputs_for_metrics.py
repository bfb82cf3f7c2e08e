# Bug: the probabilities of every step stay on the device, for an accuracy at the end.
from common import until
from tiny import CUDA, RATE, make, tokens, train_step

model, opt = make()
probabilities = []
for i in until(RATE):
    loss, logits = train_step(model, opt, tokens())
    probabilities.append(logits[:, -1 if CUDA else slice(None)].softmax(-1))  # CULPRIT
print(f"loss {loss.item():.2f} kept {len(probabilities)}")
