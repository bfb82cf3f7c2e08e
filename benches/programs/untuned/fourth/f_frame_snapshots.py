"""Bug: a portfolio appends a copy of its frame to the audit trail at each tick."""

import dataclasses

import numpy as np
import pandas as pd

from parts import until


@dataclasses.dataclass
class Portfolio:
    frame: pd.DataFrame
    trail: list = dataclasses.field(default_factory=list)

    def tick(self, returns):
        self.trail.append(self.frame.copy())  # CULPRIT
        self.frame["value"] *= 1 + returns
        self.frame["peak"] = np.maximum(self.frame["peak"], self.frame["value"])
        self.frame["drawdown"] = self.frame["value"] / self.frame["peak"] - 1

    def worst(self):
        return self.frame["drawdown"].min()


def main():
    rng = np.random.default_rng(1)
    names = [f"S{k:04d}" for k in range(3000)]
    value = rng.uniform(10, 500, 3000)
    portfolio = Portfolio(pd.DataFrame({"name": names, "value": value, "peak": value, "drawdown": 0.0}))
    for _ in until(25):
        portfolio.tick(rng.normal(0, 0.01, 3000))
    print(portfolio.worst() < 0)


if __name__ == "__main__":
    main()
