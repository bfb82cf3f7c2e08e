# Clean: functools.lru_cache with a bound. Some keys are asked again and again, others once, so the
# cache fills ever more slowly and is nearly full at the end.
import functools
import random

from common import SECONDS, STEPS, until

RATE = 40
planned = STEPS or RATE * SECONDS
rng = random.Random(0)


@functools.lru_cache(maxsize=int(planned * 2.7))
def render(page):
    return ("<p>%d</p>" % page) * 6000


size = 0
for i in until(RATE):
    for _ in range(10):
        size += len(render(int(rng.paretovariate(0.25)) % 1_000_000))
print("bytes served", size, "cached", render.cache_info().currsize)
