# Bug: every fourth step schedules a callback that logs a histogram later; the callbacks hold the
# outputs, and "later" does not come before the end.
from common import until
from tiny import CUDA, RATE, make, tokens, train_step

model, opt = make()
deferred = []


def log_later(step, outputs):
    deferred.append(lambda: (step, outputs.float().histc(10).argmax().item()))  # CULPRIT-HOLDER


for i in until(RATE):
    loss, logits = train_step(model, opt, tokens())
    if i % 4 == 0:
        log_later(i, (logits[:2, ::4] if CUDA else logits).clone())
print(f"loss {loss.item():.2f} histograms {len([callback() for callback in deferred])}")
