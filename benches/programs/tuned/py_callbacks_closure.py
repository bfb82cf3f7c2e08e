# Bug: each job registers a callback for the end of the program. The callback holds the job's data.
import random

from common import until

rng = random.Random(0)
at_exit = []


def run(job):
    data = bytearray(rng.randrange(200_000, 400_000))
    data[::4096] = b"x" * len(data[::4096])
    at_exit.append(lambda: len(data) + job)  # CULPRIT-HOLDER


for i in until(per_second=50):
    run(i)
print("sum", sum(callback() for callback in at_exit))
