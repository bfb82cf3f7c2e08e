"""Clean: pools of processes cross-validate models; memory is taken at the start and stays."""

import concurrent.futures
import multiprocessing

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

from parts import until


def score(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 20))
    y = (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
    return cross_val_score(RandomForestClassifier(30, random_state=seed), x, y, cv=3).mean()


def main():
    scores = 0.0
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=context) as pool:
        for n in until(2):
            scores = max([scores, *pool.map(score, range(3 * n, 3 * n + 3))])
    print(scores > 0)


if __name__ == "__main__":
    main()
