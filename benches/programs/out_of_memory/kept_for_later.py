# Outputs are kept in a list of an object until 6 GiB are full; a function keeps others.
import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(6 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


class Evaluation:
    def __init__(self):
        self.outputs = []


def collector():
    seen = {}

    def keep(number, output):
        seen[number] = output[:256].clone()

    return keep


def main():
    model = nn.Linear(4096, 4096).cuda()
    evaluation, keep = Evaluation(), collector()
    with torch.no_grad():
        for step in range(10_000):
            output = model(torch.rand(4096, 4096, device="cuda"))  # FAILS
            keep(step, output)
            evaluation.outputs.append(output)


main()
