# Clean: gradients of eight small batches are summed before each optimizer step.
from common import until
from tiny import BATCH, RATE, loss_of, make, tokens

model, opt = make()
for i in until(RATE):
    loss, _ = loss_of(model, tokens(BATCH // 2))
    (loss / 8).backward()
    if i % 8 == 7:
        opt.step()
        opt.zero_grad(set_to_none=True)
print(f"loss {loss.item():.2f}")
