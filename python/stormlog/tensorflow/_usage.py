"""Statistics of short lists, without NumPy."""

from __future__ import annotations

from math import sqrt
from statistics import fmean, pstdev

__all__ = ["correlation", "pstdev"]


def correlation(first: list[float], second: list[float]) -> float | None:
    """Pearson's correlation; unknown when one of the lists is constant."""
    mean_1, mean_2 = fmean(first), fmean(second)
    squares_1 = sum((value - mean_1) ** 2 for value in first)
    squares_2 = sum((value - mean_2) ** 2 for value in second)
    if not squares_1 or not squares_2:
        return None
    products = sum((a - mean_1) * (b - mean_2) for a, b in zip(first, second))
    return max(-1.0, min(1.0, products / sqrt(squares_1 * squares_2)))
