# Clean: 300 MiB are loaded once and read by four forked processes, which share the pages.
import multiprocessing

import numpy as np

from common import until

table = np.random.default_rng(0).normal(size=(300 * 128, 1024))  # 300 MiB, shared after the fork


def work(worker, steps):
    rng = np.random.default_rng(worker)
    total = 0.0
    for _ in range(steps):
        total += float(table[rng.integers(0, len(table), 64)].sum())
    return total


def serve(worker, asked, answers):
    while (steps := asked.get()) is not None:
        answers.put((worker, round(work(worker, steps), 3)))


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    answers, asked = context.Queue(), [context.Queue() for _ in range(4)]
    workers = [context.Process(target=serve, args=(n, asked[n], answers)) for n in range(4)]
    for worker in workers:
        worker.start()
    for i in until(per_second=10):
        for queue in asked:
            queue.put(20)
        last = sorted(answers.get() for _ in workers)
    for queue in asked:
        queue.put(None)
    for worker in workers:
        worker.join()
    print("answers", last)
