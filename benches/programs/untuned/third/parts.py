"""The time limit and two small models, shared by the programs in this folder."""

import os
import time

import torch
from torch import nn

SECONDS = float(os.environ.get("SCENARIO_S", "20"))
VOCAB = 8000

torch.set_num_threads(2)


def until(pause=0.0, seconds=SECONDS):
    """Step numbers until the time is over; `pause` is the wait for data or requests per step."""
    end = time.time() + seconds
    step = 0
    while time.time() < end:
        yield step
        step += 1
        time.sleep(pause)
    print("steps", step, flush=True)


def limit_memory(gib):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(gib * 2**30 / total)


class TextClassifier(nn.Module):
    def __init__(self, width=512, layers=6, classes=20):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class ConvNet(nn.Module):
    def __init__(self, classes=10, widths=(32, 64, 128, 256)):
        super().__init__()
        stages, before = [], 3
        for width in widths:
            conv = nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False)
            stages.append(nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU()))
            before = width
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)

    def features(self, images):
        return self.stages(images).mean((2, 3))

    def forward(self, images):
        return self.head(self.features(images))
