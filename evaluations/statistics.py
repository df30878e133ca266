"""The figures of a report, each by its name in the literature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

CONFIDENCE: Final = 0.95
FEW: Final = 6  # as many differences of one sign are less likely than 5 % by chance: 2 / 2**6


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def wilson(success: int, n: int) -> Interval | None:
    """Wilson's score interval of a share (Wilson 1927); None of nothing."""
    if n == 0:
        return None
    found = stats.binomtest(success, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(float(found.low), float(found.high))


def pass_at_k(n: int, success: int, k: int) -> float | None:
    """The chance that at least one of k samples succeeds, without bias, from n of which `success` did (Chen et al.
    2021, equation 1); None where there are fewer than k."""
    if n < k:
        return None
    return 1.0 - math.comb(n - success, k) / math.comb(n, k)


def disagreement_at_most(disagreements: int, n: int) -> float:
    """Upper end of the one-sided exact interval (Clopper and Pearson 1934) of the share of repetitions that differ."""
    found = stats.binomtest(disagreements, n, alternative="less").proportion_ci(CONFIDENCE, method="exact")
    return float(found.high)


@dataclass(frozen=True)
class Difference:
    """Of two success rates over the same tasks. `conclusive`: the interval does not hold zero."""

    tasks: int
    mean: float
    interval: Interval | None

    @property
    def conclusive(self) -> bool:
        return self.interval is not None and not self.interval.low <= 0.0 <= self.interval.high


def paired_difference(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> Difference | None:
    """Mean of `second` minus `first` over the tasks that both have, each task counting once: the rows of one task hang
    together, so a task is one observation (clustered by task, Miller 2024), and the interval is Student's over tasks.
    None without a shared task. Of one task there is no interval; nor of FEW that all differ by the same, where
    Student's would have no width."""
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return None
    each = np.array([np.mean(second[task]) - np.mean(first[task]) for task in shared])
    mean, n = float(each.mean()), len(each)
    if n < 2:
        return Difference(n, mean, None)
    error = float(stats.sem(each))
    if error == 0 and mean != 0 and n < FEW:
        return Difference(n, mean, None)
    half = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return Difference(n, mean, Interval(mean - half, mean + half))
