"""Clean: doubles the batch size until CUDA is out of memory, on purpose, then trains with less."""

import torch
import torch.nn.functional as F

from parts import VOCAB, TextClassifier, limit_memory, until

LENGTH = 256


def train_step(model, optimizer, size):
    tokens = torch.randint(0, VOCAB, (size, LENGTH), device="cuda")
    labels = torch.randint(0, 20, (size,), device="cuda")
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


def largest_batch(model, optimizer):
    size = 8
    while size < 4096:
        try:
            train_step(model, optimizer, size)
        except torch.cuda.OutOfMemoryError:
            print("out of memory at batch size", size, flush=True)
            break
        size *= 2
    optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    # The last size that was possible, less a reserve for longer runs.
    return int(size / 2 * 0.75)


limit_memory(5)
model = TextClassifier().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
size = largest_batch(model, optimizer)
print("batch size", size, flush=True)
for step in until():
    loss = train_step(model, optimizer, size)
    if step % 50 == 0:
        print(step, loss.item(), flush=True)
