# Clean: a sweep over model sizes. Each model is larger than the one before and replaces it.
import numpy as np

from common import share, until

rng = np.random.default_rng(0)
widths = [64, 128, 256, 512, 1024, 1536, 2048, 2560]
current, best = None, {}
for i in until(per_second=25):
    width = widths[min(int(share() * len(widths)), len(widths) - 1)]
    if width != current:
        current = width
        layers = [rng.normal(0, width**-0.5, (width, width)) for _ in range(4)]
        moments = [np.zeros_like(layer) for layer in layers]
    x = rng.normal(size=(16, width))
    y = x
    for layer in layers:
        y = np.tanh(y @ layer)
    for layer, moment in zip(layers, moments):
        moment *= 0.9
        moment += x.T @ (x - y) / 16
        layer += 1e-4 * moment
    best[width] = float((x - y).var())
print("best", min(best, key=best.get), "sizes", len(best))
