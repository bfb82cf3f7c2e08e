"""Bug: worker threads keep every rendered page in a cache of their own."""

import queue
import random
import threading
import zlib

from parts import until

local = threading.local()
pages = queue.Queue(maxsize=50)
done = []


def render(page):
    if not hasattr(local, "rendered"):
        local.rendered = {}  # CULPRIT-HOLDER
    found = local.rendered.get(page)
    if found is None:
        text = (page * 500)[:12_000]
        found = zlib.compress(text.encode()) + text.encode()
        local.rendered[page] = found  # CULPRIT
    return found


def work():
    served = 0
    while True:
        page = pages.get()
        if page is None:
            done.append(served)
            return
        served += len(render(page)) > 0


def main():
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    rnd = random.Random(1)
    for n in until(200):
        pages.put(f"{rnd.getrandbits(96):024x}")
    for _ in threads:
        pages.put(None)
    for thread in threads:
        thread.join()
    print(sum(done) > 0)


if __name__ == "__main__":
    main()
