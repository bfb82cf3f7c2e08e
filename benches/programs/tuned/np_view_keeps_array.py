# Bug: one row of each picture is kept as a thumbnail. The row is a view, so it keeps the picture.
import numpy as np

from common import until

rng = np.random.default_rng(0)
thumbnails = []
for i in until(per_second=15):
    picture = rng.integers(0, 255, (512, 1024, 3), dtype=np.uint8)
    bright = picture.astype(np.float32).mean()
    thumbnails.append(picture[0])  # CULPRIT-HOLDER
print("thumbnails", len(thumbnails), "last", round(float(bright), 3))
