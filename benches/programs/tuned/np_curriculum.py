# Clean: attention over sequences that get longer during training, from 64 to 768, then stay there.
import numpy as np

from common import share, until

rng = np.random.default_rng(0)
width = 64
w_q, w_k, w_v = (rng.normal(0, 0.1, (width, width)) for _ in range(3))
loss = 0.0
for i in until(per_second=12):
    length = 64 * (1 + int(11 * min(share() / 0.7, 1.0)))
    x = rng.normal(size=(8, length, width))
    scores = (x @ w_q) @ (x @ w_k).transpose(0, 2, 1) / width**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = weights @ (x @ w_v)
    loss = float((y - x).var())
    w_v += 1e-3 * np.einsum("btd,bte->de", x, x - y) / (8 * length)
print("length", length, "loss", round(loss, 3))
