"""Bug: a work buffer per thread name, on a server that starts a new thread for each request."""

import threading

import torch

from parts import ConvNet, until

model = ConvNet(widths=(32, 64, 128)).cuda().eval()
workspaces = {}


def workspace():
    name = threading.current_thread().name
    if name not in workspaces:
        workspaces[name] = torch.empty(3, 384, 384, device="cuda")  # CULPRIT
    return workspaces[name]


def handle(request, answers):
    buffer = workspace()
    buffer.normal_().clamp_(-2, 2)
    with torch.no_grad():
        scores = model(buffer.unsqueeze(0)).softmax(1)
    answers[request] = scores.argmax().item()


answers = {}
for request in until(pause=0.02):
    thread = threading.Thread(target=handle, args=(request, answers))
    thread.start()
    thread.join()
    answer = answers.pop(request)
    if request % 100 == 0:
        print("request", request, "class", answer, flush=True)
