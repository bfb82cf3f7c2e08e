# Clean: a replay buffer made once with np.zeros. The kernel gives it pages as it fills; at the end
# of the run it is nearly full.
import numpy as np

from common import SECONDS, STEPS, until

RATE = 50
capacity = int((STEPS or RATE * SECONDS) * 16 * 1.06)
rng = np.random.default_rng(0)
frames = np.zeros((capacity, 84, 84), dtype=np.uint8)
rewards = np.zeros(capacity, dtype=np.float32)
weights = np.zeros(84 * 84)
filled = 0
for i in until(RATE):
    new = rng.integers(0, 255, (16, 84, 84), dtype=np.uint8)
    slots = np.arange(filled, filled + 16) % capacity
    frames[slots], rewards[slots] = new, new.mean(axis=(1, 2))
    filled += 16
    batch = rng.integers(0, min(filled, capacity), 32)
    x = frames[batch].reshape(32, -1) / 255.0
    weights += 1e-6 * x.T @ (rewards[batch] / 255.0 - x @ weights)
print("filled", filled, "norm", round(float(np.linalg.norm(weights)), 4))
