# Clean: generates texts token by token. The keys and values of a text grow with it and are freed
# when it is finished.
import torch
from torch import nn

from common import until
from tiny import CUDA, RATE, VOCAB, WIDTH, device

embed = nn.Embedding(VOCAB, WIDTH).to(device)
q, kv, head = (nn.Linear(WIDTH, width).to(device) for width in (WIDTH, 2 * WIDTH, VOCAB))
batch = 128 if CUDA else 16
written = 0
with torch.no_grad():
    for i in until(RATE and RATE / 4):
        token = torch.randint(0, VOCAB, (batch, 1), device=device)
        past = None
        for _ in range(40 + 37 * i % 160):
            x = embed(token)
            new = kv(x)
            past = new if past is None else torch.cat([past, new], 1)
            k, v = past.chunk(2, -1)
            x = nn.functional.scaled_dot_product_attention(q(x), k, v)
            token = head(x).argmax(-1)
        written += past.shape[1]
print("tokens", written)
