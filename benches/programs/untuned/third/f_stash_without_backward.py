"""Bug: a recomputing function stashes its input, also in evaluation, where nothing pops it."""

import torch
import torch.nn.functional as F

from parts import VOCAB, TextClassifier, until

stash = []


class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block):
        ctx.block = block
        stash.append(x.to(torch.bfloat16))  # CULPRIT
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = stash.pop().float().requires_grad_()
        with torch.enable_grad():
            y = ctx.block(x)
        torch.autograd.backward(y, gradient)
        return x.grad, None


class Classifier(TextClassifier):
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = Recompute.apply(x, block)
        return self.head(x.mean(1))


def batch():
    tokens = torch.randint(0, VOCAB, (16, 128), device="cuda")
    return tokens, torch.randint(0, 20, (16,), device="cuda")


model = Classifier().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in until(pause=0.01):
    tokens, labels = batch()
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        with torch.no_grad():
            tokens, labels = batch()
            accuracy = (model(tokens).argmax(1) == labels).float().mean().item()
        print("step", step, "accuracy", accuracy, flush=True)
