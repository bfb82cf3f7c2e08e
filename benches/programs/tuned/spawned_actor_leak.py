# Bug: a spawned actor process keeps every episode on the device; the learner is fine.
import torch
import torch.multiprocessing as mp

from common import until
from tiny import CUDA, RATE, device, make, tokens, train_step


def act(asked, answers):
    episodes = []
    while asked.get() is not None:
        states = torch.rand(128 if CUDA else 64, 84, 84, device=device)
        episodes.append(states)  # CULPRIT-HOLDER
        answers.put(round(states.mean().item(), 3))


if __name__ == "__main__":
    context = mp.get_context("spawn")
    asked, answers = context.Queue(), context.Queue()
    actor = context.Process(target=act, args=(asked, answers))
    actor.start()
    model, opt = make()
    rewards = 0.0
    for i in until(RATE and RATE / 2):
        loss, _ = train_step(model, opt, tokens())
        if i % (4 if CUDA else 1) == 0:
            asked.put(i)
            rewards += answers.get()
    asked.put(None)
    actor.join()
    print(f"loss {loss.item():.2f}")
