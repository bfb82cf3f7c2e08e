"""Clean: graph network on graphs of very different sizes, some of them 50 times the median."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from parts import until

rng = np.random.default_rng(7)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(2 * width, width)
        self.update = nn.GRUCell(width, width)

    def forward(self, nodes, source, target):
        pairs = torch.cat([nodes[source], nodes[target]], 1)
        messages = F.relu(self.message(pairs))
        received = torch.zeros_like(nodes).index_add_(0, target, messages)
        return self.update(received, nodes)


class GraphNet(nn.Module):
    def __init__(self, width=96, layers=4):
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.out = nn.Linear(width, 1)

    def forward(self, features, source, target):
        nodes = self.embed(features)
        for layer in self.layers:
            nodes = layer(nodes, source, target)
        return self.out(nodes.mean(0))


def next_graph():
    nodes = int(min(800 * rng.lognormal(0, 1.4), 40_000))
    edges = 8 * nodes
    features = torch.randn(nodes, 16, device="cuda")
    source = torch.randint(0, nodes, (edges,), device="cuda")
    target = torch.randint(0, nodes, (edges,), device="cuda")
    return features, source, target


model = GraphNet().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in until():
    loss = F.smooth_l1_loss(model(*next_graph()), torch.ones(1, device="cuda"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(step, loss.item(), flush=True)
