"""Bug: the decoding thread is faster than training, and the queue between them has no limit."""

import queue
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F

from parts import ConvNet, until

frames = queue.Queue()  # CULPRIT-HOLDER
stop = threading.Event()


def decode():
    rng = np.random.default_rng(1)
    while not stop.is_set():
        clip = rng.random((4, 3, 160, 160), dtype=np.float32)  # CULPRIT
        frames.put((clip, rng.integers(0, 10, 4)))
        time.sleep(0.015)


thread = threading.Thread(target=decode, daemon=True)
thread.start()
model = ConvNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in until(pause=0.05):
    clip, labels = frames.get()
    images = torch.from_numpy(clip).cuda()
    loss = F.cross_entropy(model(images), torch.from_numpy(labels).cuda())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print("step", step, "loss", loss.item(), flush=True)
stop.set()
thread.join()
