"""Clean: copies the state to the host at times; a thread writes it to disk and keeps three."""

import pathlib
import queue
import tempfile
import threading
import time

import torch
import torch.nn.functional as F

from parts import SECONDS, VOCAB, TextClassifier, until


def to_host(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: to_host(item) for key, item in value.items()}
    if isinstance(value, list):
        return [to_host(item) for item in value]
    return value


def writer(snapshots, folder):
    written = []
    while (item := snapshots.get()) is not None:
        step, state = item
        path = folder / f"step{step}.pt"
        torch.save(state, path)
        written.append(path)
        if len(written) > 3:
            written.pop(0).unlink()
        del item, state
    print("files", sorted(path.name for path in folder.iterdir()), flush=True)


def main():
    model = TextClassifier(layers=8).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    snapshots = queue.Queue(maxsize=1)
    with tempfile.TemporaryDirectory() as folder:
        thread = threading.Thread(target=writer, args=(snapshots, pathlib.Path(folder)))
        thread.start()
        last = time.time()
        for step in until(pause=0.005):
            tokens = torch.randint(0, VOCAB, (16, 128), device="cuda")
            labels = torch.randint(0, 20, (16,), device="cuda")
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if time.time() - last > SECONDS / 12:
                last = time.time()
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                snapshots.put((step, to_host(state)))
        snapshots.put(None)
        thread.join()


main()
