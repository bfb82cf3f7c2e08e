# Bug: a forward hook, put in for debugging, appends the output of one layer and was forgotten.
from common import until
from tiny import CUDA, RATE, make, tokens, train_step

model, opt = make()
captured = []
model.layers[-1].register_forward_hook(
    lambda layer, inputs, output: captured.append(output.detach()[:: 16 if CUDA else 1].repeat(1, 1, 4))  # CULPRIT
)
for i in until(RATE):
    loss, _ = train_step(model, opt, tokens())
print(f"loss {loss.item():.2f} captured {len(captured)}")
