# Bug: responses are cached under the full request, whose id never comes twice. Nothing evicts.
import random

from common import until

rng = random.Random(0)
cache = {}


def respond(request):
    if request not in cache:
        cache[request] = "".join(rng.choices("abcdef ", k=4096)) * 64  # CULPRIT
    return cache[request]


size = 0
for i in until(per_second=100):
    size += len(respond((i, "/page/%d" % rng.randrange(50))))
print("bytes served", size)
