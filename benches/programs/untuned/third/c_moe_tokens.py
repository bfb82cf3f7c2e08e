"""Clean: mixture of experts without a capacity limit; each expert's token count varies per step."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from parts import VOCAB, until

random.seed(11)
WIDTH, EXPERTS = 512, 8


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(EXPERTS)
        )

    def forward(self, x):
        normed = self.norm(x)
        weights, chosen = self.router(normed).float().softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = (chosen == number).nonzero(as_tuple=True)
            if len(rows):
                mixed = expert(normed[rows]) * weights[rows, slot, None]
                out = out.index_add(0, rows, mixed.to(out.dtype))
        return x + out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.Sequential(*[MoE() for _ in range(4)])
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in until():
    tokens = torch.randint(0, VOCAB, (random.randint(500, 8000),), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(tokens[:-1]).float(), tokens[1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, len(tokens), loss.item(), flush=True)
