"""Clean: active learning; the labelled set on the GPU grows by rounds until the budget is spent."""

import torch
import torch.nn.functional as F

from parts import SECONDS, ConvNet, until

POOL, PER_ROUND, ROUNDS = 30_000, 1500, 12


def train(images, labels, seconds):
    model = ConvNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in until(pause=0.002, seconds=seconds):
        rows = torch.randint(0, len(images), (256,), device="cuda")
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def most_uncertain(model, pool, free):
    scores = []
    for rows in free.split(2000):
        p = model(pool[rows].cuda()).softmax(1)
        scores.append(-(p * p.clamp_min(1e-9).log()).sum(1).cpu())
    order = torch.cat(scores).argsort(descending=True)
    return free[order[:PER_ROUND]], free[order[PER_ROUND:]]


torch.manual_seed(0)
pool = torch.randn(POOL, 3, 48, 48)
answers = torch.randint(0, 10, (POOL,))
chosen, free = torch.randperm(POOL).split([PER_ROUND, POOL - PER_ROUND])
images, labels = pool[chosen].cuda(), answers[chosen].cuda()
for number in range(ROUNDS):
    model = train(images, labels, 0.6 * SECONDS / ROUNDS)
    chosen, free = most_uncertain(model, pool, free)
    images = torch.cat([images, pool[chosen].cuda()])
    labels = torch.cat([labels, answers[chosen].cuda()])
    print("round", number, "labelled", len(images), flush=True)
train(images, labels, 0.4 * SECONDS)
