# Bug: a spawned process collects all events that it is sent, to answer a question about the last.
import multiprocessing

from common import until


def collect(events, answers):
    log = []
    while (event := events.get()) is not None:
        log.append(event * 120_000)  # CULPRIT
        answers.put(len(log[-1]))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    events, answers = context.Queue(), context.Queue()
    child = context.Process(target=collect, args=(events, answers))
    child.start()
    total = 0
    for i in until(per_second=50):
        events.put(b"%03d" % (i % 1000))
        total += answers.get()
    events.put(None)
    child.join()
    print("bytes", total)
