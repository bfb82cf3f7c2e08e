# Clean: sequences get longer during training, up to four times the first length, then stay.
from common import share, until
from tiny import LENGTH, RATE, make, tokens, train_step

model, opt = make()
for i in until(RATE):
    length = LENGTH // 2 * (1 + int(7 * min(share() / 0.7, 1.0)))
    loss, _ = train_step(model, opt, tokens(length=length))
print(f"length {length} loss {loss.item():.2f}")
