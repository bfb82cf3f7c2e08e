# Bug: total_loss is a tensor with history, so every step keeps a scalar and its node: 512 bytes of the device.
from net import *
model, opt = make()
total_loss = 0
for i in until():
    loss, _ = train_step(model, opt, batch(4, 128))
    total_loss = total_loss + loss  # CULPRIT-HOLDER total_loss
