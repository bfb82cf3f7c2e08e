# Clean: a service in asyncio. Sessions hold 200 KiB each and expire; the request queue is bounded.
import asyncio
import collections
import random

from common import until

rng = random.Random(0)


async def main():
    queue = asyncio.Queue(maxsize=32)
    sessions = collections.OrderedDict()
    served = 0

    async def worker():
        nonlocal served
        while True:
            user = await queue.get()
            sessions.setdefault(user, b"x" * 200_000)
            sessions.move_to_end(user)
            while len(sessions) > 300:
                sessions.popitem(last=False)
            served += 1
            queue.task_done()

    workers = [asyncio.create_task(worker()) for _ in range(8)]
    for i in until(per_second=50):
        for _ in range(rng.choice([1, 2, 2, 12])):
            await queue.put(rng.randrange(3000))
        await queue.join()
    for task in workers:
        task.cancel()
    print("served", served, "sessions", len(sessions))


asyncio.run(main())
