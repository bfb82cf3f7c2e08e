# One sequence of the data is far longer than the others: its activations do not fit into 8 GiB.
import torch
from torch import nn

torch.manual_seed(0)
torch.cuda.set_per_process_memory_fraction(8 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))  # FAILS


class Model(nn.Module):
    def __init__(self, width=1024, layers=24):
        super().__init__()
        self.embed = nn.Embedding(16_000, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 256)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train_step(batch):
    loss = model(batch).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(200):
    length = 40_000 if step == 150 else 256
    train_step(torch.randint(0, 16_000, (1, length), device="cuda"))
