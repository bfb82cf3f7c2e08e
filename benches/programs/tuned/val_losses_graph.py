# Bug: validation losses are collected without no_grad and without item(), each with its graph.
from common import until
from tiny import CUDA, RATE, loss_of, make, tokens, train_step

model, opt = make()
val_losses = []
for i in until(RATE):
    loss, _ = train_step(model, opt, tokens())
    if i % 5 == 0:
        validation, _ = loss_of(model, tokens(1, 32 if CUDA else 128))
        val_losses.append(validation)  # CULPRIT-HOLDER
print(f"validation {sum(val_losses).item() / len(val_losses):.2f}")
