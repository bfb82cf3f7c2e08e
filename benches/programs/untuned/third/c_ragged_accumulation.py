"""Clean: length curriculum with two loader workers, pinned batches and gradient accumulation."""

import random
import time

import torch
import torch.nn.functional as F

from parts import SECONDS, VOCAB, TextClassifier, until

SHORTEST, LONGEST, TOKENS_PER_UPDATE = 32, 512, 32_768


class Sentences(torch.utils.data.IterableDataset):
    def __init__(self):
        self.start = time.time()

    def __iter__(self):
        while True:
            # The longest length rises until 60 % of the time is over, then it stays.
            part = min((time.time() - self.start) / (0.6 * SECONDS), 1.0)
            longest = int(SHORTEST + part * (LONGEST - SHORTEST))
            tokens = torch.randint(1, VOCAB, (random.randint(longest // 2, longest),))
            yield tokens, random.randrange(20)


def collate(items):
    tokens = torch.nn.utils.rnn.pad_sequence([item[0] for item in items], batch_first=True)
    return tokens, torch.tensor([item[1] for item in items])


def main():
    model = TextClassifier().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(
        Sentences(), batch_size=32, num_workers=2, pin_memory=True, collate_fn=collate
    )
    batches = iter(loader)
    pending = 0
    for _ in until():
        tokens, labels = next(batches)
        tokens, labels = tokens.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(tokens), labels)
        (loss * tokens.numel() / TOKENS_PER_UPDATE).backward()
        pending += tokens.numel()
        if pending >= TOKENS_PER_UPDATE:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            pending = 0


if __name__ == "__main__":
    main()
