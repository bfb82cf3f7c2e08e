"""Bug: a class keeps all of its instances in a list, for debugging."""

import random

import numpy as np

from parts import until


class Job:
    all_jobs = []

    def __init__(self, name, matrix):
        self.name, self.matrix = name, matrix
        self.result = None
        Job.all_jobs.append(self)  # CULPRIT-HOLDER

    def run(self):
        self.result = np.linalg.svd(self.matrix, compute_uv=False)
        return self.result[0]


def main():
    rng = np.random.default_rng(1)
    largest = 0.0
    for n in until(40):
        job = Job(f"job {n}", rng.normal(size=(90, 90)))
        largest = max(largest, job.run())
    print(largest > 0)


if __name__ == "__main__":
    main()
