# Clean: the training step is captured once as a CUDA graph, then replayed.
import torch

from common import until
from tiny import loss_of, make, need_cuda, tokens

need_cuda()
model, _ = make()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
ids = tokens()


def step():
    opt.zero_grad(set_to_none=True)
    loss, _ = loss_of(model, ids)
    loss.backward()
    opt.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for i in until():
    ids.copy_(tokens())
    graph.replay()
    if i % 50 == 0:
        torch.cuda.synchronize()
print(f"loss {loss.item():.2f}")
