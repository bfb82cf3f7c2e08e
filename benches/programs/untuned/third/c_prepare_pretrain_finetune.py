"""Clean: prepares the data on the CPU, pretrains an autoencoder, then fine-tunes another model."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from parts import SECONDS, until

COLUMNS = 256
rng = np.random.default_rng(0)


def prepare():
    chunks = []
    for _ in until(pause=0.02, seconds=0.25 * SECONDS):
        if len(chunks) < 150:
            chunk = rng.standard_normal((2000, COLUMNS), dtype=np.float32)
            ranks = chunk.argsort(axis=1).astype(np.float32) / COLUMNS
            chunks.append(0.5 * chunk + ranks)
    table = np.concatenate(chunks)
    return (table - table.mean(0)) / table.std(0)


def encoder():
    return nn.Sequential(nn.Linear(COLUMNS, 2048), nn.GELU(), nn.Linear(2048, 512))


def pretrain(table):
    model = nn.Sequential(encoder(), nn.GELU(), nn.Linear(512, 2048), nn.Linear(2048, COLUMNS))
    model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in until(pause=0.002, seconds=0.4 * SECONDS):
        rows = rng.integers(0, len(table), 8192)
        x = torch.from_numpy(table[rows]).cuda()
        loss = F.mse_loss(model(x * (torch.rand_like(x) > 0.3)), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return {name: value.cpu() for name, value in model[0].state_dict().items()}


def finetune(state, labelled):
    body = encoder()
    body.load_state_dict(state)
    model = nn.Sequential(body, nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 5)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.from_numpy(labelled).cuda()
    y = torch.from_numpy(rng.integers(0, 5, len(labelled))).cuda()
    for _ in until(pause=0.002, seconds=0.35 * SECONDS):
        rows = torch.randint(0, len(x), (512,), device="cuda")
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


table = prepare()
print("rows", len(table), flush=True)
state = pretrain(table)
labelled = table[:20_000].copy()
del table
finetune(state, labelled)
