# Bug: bad batches raise an error, and the errors are kept. Their tracebacks hold the frames of the
# training step with batch, outputs and graph.
from common import until
from tiny import RATE, loss_of, make, tokens

model, opt = make()
failures = []


def guarded_step(number):
    ids = tokens(2, 32) if number % 6 == 0 else tokens()
    loss, logits = loss_of(model, ids)
    if number % 6 == 0:
        raise FloatingPointError(f"loss of batch {number} is not finite")
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


for i in until(RATE and 2 * RATE):
    try:
        loss = guarded_step(i)
    except FloatingPointError as error:
        failures.append(error)  # CULPRIT-HOLDER
print(f"loss {loss:.2f} failures {len(failures)}")
