"""Bug: streaming server; the generator of a client that went away is never closed or dropped."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from parts import VOCAB, until

random.seed(5)
WIDTH, LAYERS, HEADS, NEW = 512, 4, 8, 48


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, token, cache, position):
        x = self.embed(token)
        for layer, qkv in enumerate(self.qkv):
            q, k, v = qkv(x).view(3, 1, HEADS, WIDTH // HEADS)
            cache[layer, 0, position], cache[layer, 1, position] = k[0], v[0]
            keys, values = cache[layer, :, : position + 1].transpose(1, 2)
            attended = F.scaled_dot_product_attention(q.transpose(0, 1), keys, values)
            x = x + attended.reshape(1, WIDTH)
        return self.head(x).argmax(1)


def stream(model, token, context):
    cache = torch.zeros(LAYERS, 2, context, HEADS, WIDTH // HEADS, device="cuda")  # CULPRIT
    for position in range(NEW):
        with torch.no_grad():
            token = model(token, cache, position)
        yield token.item()


model = Decoder().cuda().eval()
streams, patience = {}, {}
for request in until(pause=0.01):
    first = torch.randint(0, VOCAB, (1,), device="cuda")
    streams[request] = stream(model, first, context=256)  # CULPRIT-HOLDER
    # A third of the clients close the connection before the end of the answer.
    patience[request] = random.randint(2, 20) if random.random() < 0.33 else NEW + 1
    while len(patience) >= 4:
        for number in list(patience):
            token = next(streams[number], None)
            patience[number] -= 1
            if token is None:
                del streams[number]
            if token is None or patience[number] == 0:
                del patience[number]
    if request % 50 == 0:
        print("request", request, flush=True)
