"""Bug: an online forecaster retrains and keeps every booster it ever had."""

import lightgbm as lgb
import numpy as np

from parts import until


class Forecaster:
    def __init__(self):
        self.boosters = []
        self.rng = np.random.default_rng(1)

    def retrain(self):
        x = self.rng.normal(size=(1500, 12))
        y = x[:, 0] * 2 + np.sin(x[:, 1]) + self.rng.normal(0, 0.1, 1500)
        options = {"verbosity": -1, "num_leaves": 63, "num_threads": 1, "objective": "regression"}
        self.boosters.append(lgb.train(options, lgb.Dataset(x, y, free_raw_data=False), 25))  # CULPRIT

    def predict(self):
        return float(self.boosters[-1].predict(self.rng.normal(size=(1, 12)))[0])


def main():
    forecaster = Forecaster()
    total = 0.0
    for _ in until(8):
        forecaster.retrain()
        total += forecaster.predict()
    print(total != 0.0)


if __name__ == "__main__":
    main()
