# Bug: exceptions are collected for a report. Each holds its traceback, and so the frames' variables.
import random

from common import until

rng = random.Random(0)
errors = []


def parse(number):
    document = [rng.random() for _ in range(12_000)]
    if number % 3 == 0:
        raise ValueError(f"document {number} has no title")
    return sum(document)


total = 0.0
for i in until(per_second=100):
    try:
        total += parse(i)
    except ValueError as error:
        errors.append(error)  # CULPRIT-HOLDER
print("errors", len(errors), "total", round(total, 3))
