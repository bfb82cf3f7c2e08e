# Bug: a forward hook stores activations of one layer in a list on an object.
from net import *
class Recorder:
    def __init__(self): self.activations = []
    def __call__(self, module, args, output): self.activations.append(output[0].detach()[:, :4].clone())  # CULPRIT holder rec.activations
rec = Recorder(); model, opt = make(); model.blocks[2].register_forward_hook(rec)
for i in until(): train_step(model, opt, batch(8, 256))
