"""Search for holders on a second thread while PyTorch trains: the process must survive.

    python benches/robustness/search_stress.py [SECONDS]

PyTorch's engine frees saved tensors and replaces gradients without the interpreter, so a search
that reads them at the wrong moment ends the process with SIGSEGV. Needs PyTorch; any device.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time

import torch
from torch import nn

from stormlog import _holders


def main() -> None:
    faulthandler.enable()
    torch.set_num_threads(1)
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 60)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [part for _ in range(30) for part in (nn.Linear(128, 128), nn.GELU())]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    searches = 0

    def search() -> None:
        nonlocal searches
        while time.monotonic() < end:
            rest = lambda: time.sleep(0.001)  # noqa: E731
            _holders.survey(time.monotonic() + 2, rest=rest, counts_host=True)
            _holders.locate({1 << 40: 64}, time.monotonic() + 2, rest=rest)
            searches += 2

    thread = threading.Thread(target=search)
    thread.start()
    steps = 0
    while time.monotonic() < end:
        loss = model(torch.randn(32, 128, device=device)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
    thread.join()
    print(f"survived {searches} searches beside {steps} steps on {device}")


if __name__ == "__main__":
    main()
