"""Small PyTorch models, for the GPU if there is one, else for the CPU at a smaller size."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
CUDA = device == "cuda"

# On the CPU a step takes a few milliseconds on one core.
VOCAB, WIDTH, LAYERS, HEADS = (8000, 512, 4, 8) if CUDA else (1000, 64, 2, 4)
BATCH, LENGTH = (16, 128) if CUDA else (4, 64)
RATE = None if CUDA else 20  # steps per second: as fast as the GPU allows, or paced

torch.manual_seed(0)
if not CUDA:
    torch.set_num_threads(1)


def need_cuda():
    """Exit with a message where there is no GPU."""
    if not CUDA:
        sys.exit("this program needs CUDA, and no GPU was found")


def limit_device(gib):
    """Let PyTorch use at most `gib` GiB of the device."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(gib * 2**30 / total, 1.0))


class LanguageModel(nn.Module):
    def __init__(self, width=WIDTH, layers=LAYERS):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, HEADS, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def make(width=WIDTH, layers=LAYERS):
    model = LanguageModel(width, layers).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def tokens(batch=BATCH, length=LENGTH):
    return torch.randint(0, VOCAB, (batch, length), device=device)


def loss_of(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits.view(-1, VOCAB), ids.view(-1)), logits


def train_step(model, opt, ids):
    loss, logits = loss_of(model, ids)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach(), logits.detach()
