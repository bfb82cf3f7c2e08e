"""Bug: tasks are put into a set so that they are not collected; finished ones are never taken out."""

import asyncio
import hashlib
import os
import random

from parts import SECONDS

background = set()


async def enrich(order):
    await asyncio.sleep(random.random() * 0.2)
    blob = os.urandom(9_000)
    return {"order": order, "digest": hashlib.sha256(blob).hexdigest(), "label": blob}


async def handle(order):
    task = asyncio.create_task(enrich(order))
    background.add(task)  # CULPRIT-HOLDER
    await asyncio.sleep(0)


async def main():
    loop = asyncio.get_running_loop()
    ends = loop.time() + SECONDS
    order = 0
    while loop.time() < ends:
        await handle(order)
        order += 1
        await asyncio.sleep(0.004)
    print(order > 0)


asyncio.run(main())
