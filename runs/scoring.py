"""The one definition of each figure. Pages, API, SDK and exports read these functions and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from statistics import NormalDist
from typing import Final, NamedTuple, TypedDict, cast
from uuid import UUID

from django.db import connection
from django.db.models import F, Sum

from .models import Run, TaskTally

CONFIDENCE: Final = 0.95


class Counts(TypedDict):
    """planned = queued + running + verifying + done + error + cancelled = valid + invalid + not_checked;
    valid = success + fail."""

    planned: int
    queued: int
    running: int
    verifying: int
    done: int
    error: int
    cancelled: int
    valid: int
    invalid: int
    not_checked: int
    success: int
    fail: int


class Cost(TypedDict):
    """Dollars. spent + reserved + left = cap, always; the cap is the one in force."""

    cap_usd: Decimal
    spent_usd: Decimal
    reserved_usd: Decimal
    left_usd: Decimal


class Caps(TypedDict):
    """The caps in force. The run's document keeps those that it was created with."""

    spend_cap_usd: Decimal
    time_cap_minutes: int


def counts(run: Run) -> Counts:
    return cast(Counts, {key: getattr(run, key) for key in Counts.__annotations__})


def cost(run: Run) -> Cost:
    budget = run.budget
    return Cost(
        cap_usd=budget.cap or Decimal(0),
        spent_usd=budget.spent,
        reserved_usd=budget.reserved,
        left_usd=budget.left or Decimal(0),
    )


def caps(run: Run) -> Caps:
    """The one place that says which caps are in force."""
    return Caps(spend_cap_usd=run.budget.cap or Decimal(0), time_cap_minutes=run.time_cap_minutes)


class TaskTotal(NamedTuple):
    """What a task's stored attempts have come to. `finished` = done + error."""

    finished: int
    valid: int
    success: int

    @property
    def fail(self) -> int:
        return self.valid - self.success

    @property
    def no_verdict(self) -> int:
        return self.finished - self.valid


def task_totals(runs: Iterable[Run]) -> dict[UUID, dict[int, TaskTotal]]:
    """Per run and task (primary keys), in one query; a task without a finished attempt is left out."""
    rows = TaskTally.objects.filter(run__in=[run.pk for run in runs], finished__gt=0)
    totals: dict[UUID, dict[int, TaskTotal]] = {}
    for run_id, task_id, *counted in rows.values_list("run_id", "task_id", "finished", "valid", "success"):
        totals.setdefault(run_id, {})[task_id] = TaskTotal(*counted)
    return totals


def unjudged(run: Run) -> int:
    """How many finished attempts have no verdict. `run.valid` runs ahead of `run.finished`: a verdict comes a moment
    before its desktop is gone."""
    totals = TaskTally.objects.filter(run=run).aggregate(n=Sum(F("finished") - F("valid")))
    return totals["n"] or 0


def run_totals(run: Run) -> dict[int, TaskTotal]:
    """A run's totals by task."""
    return task_totals([run]).get(run.pk, {})


@dataclass(frozen=True)
class NoVerdict:
    """A reason of the closed vocabulary, how many finished attempts have it, and the first of them by number."""

    reason: str
    count: int
    numbers: list[int]


def no_verdict(run: Run, shown: int = 8) -> list[NoVerdict]:
    """Why finished attempts have no verdict, most frequent first. An attempt with two reasons counts in both."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT reason, count, ARRAY(
              SELECT number FROM runs_noverdict one WHERE one.run_id = tally.run_id AND one.reason = tally.reason
              ORDER BY number LIMIT %s)
            FROM runs_reasontally tally WHERE run_id = %s AND count > 0 ORDER BY count DESC, reason
            """,
            [shown, run.pk],
        )
        return [NoVerdict(*row) for row in cursor.fetchall()]


@dataclass(frozen=True)
class Rate:
    """Success over valid attempts with its interval, and how far the attempts without a verdict could move it.

    All shares 0 … 1; `rate`, `low` and `high` are None while no attempt is valid. Only ever of an evaluation: a
    scripted test has none.
    """

    success: int
    valid: int
    finished: int
    rate: float | None
    low: float | None
    high: float | None
    tasks: int
    method: str

    @property
    def fail(self) -> int:
        return self.valid - self.success

    @property
    def no_verdict(self) -> int:
        return self.finished - self.valid

    @property
    def coverage(self) -> float | None:
        """Valid over finished."""
        return self.valid / self.finished if self.finished else None

    @property
    def worst(self) -> float:
        """Were every attempt without a verdict a Fail."""
        return self.success / self.finished if self.finished else 0.0

    @property
    def best(self) -> float:
        """Were every attempt without a verdict a Success."""
        return (self.success + self.no_verdict) / self.finished if self.finished else 1.0


def rate(totals: Mapping[int, TaskTotal]) -> Rate:
    """The rate over all tasks. The interval is clustered by task: attempts of one task are not independent."""
    judged = [total for total in totals.values() if total.valid]
    success = sum(total.success for total in judged)
    valid = sum(total.valid for total in judged)
    finished = sum(total.finished for total in totals.values())
    if not valid:
        return Rate(0, 0, finished, None, None, None, 0, "")
    share = success / valid
    if len(judged) == 1:
        low, high = wilson(success, valid)
        method = "Wilson"
    elif success in (0, valid):
        # No spread to cluster by. Each task counts once, which is the cautious end of what its attempts may add.
        low, high = wilson(len(judged) if success else 0, len(judged))
        method = "Wilson, by task"
    else:
        half = t_quantile(0.5 + CONFIDENCE / 2, len(judged) - 1) * clustered_error(judged, share, valid)
        low, high = max(0.0, share - half), min(1.0, share + half)
        method = "by task"
    return Rate(success, valid, finished, share, low, high, len(judged), method)


def clustered_error(judged: Iterable[TaskTotal], share: float, valid: int) -> float:
    """Standard error of the ratio Σ success / Σ valid with tasks as clusters."""
    clusters = list(judged)
    squares = sum((total.success - share * total.valid) ** 2 for total in clusters)
    return math.sqrt(len(clusters) / (len(clusters) - 1) * squares) / valid


def wilson(success: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval of a share of n independent trials."""
    if n < 1:
        raise ValueError("An interval needs at least one trial.")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = success / n
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t. Exact for 1 and 2 degrees of freedom, else Hill's expansion (below 1e-5 from 3 on)."""
    if df < 1 or not 0.5 <= p < 1:
        raise ValueError("A t quantile needs df ≥ 1 and 0.5 ≤ p < 1.")
    if df == 1:
        return math.tan(math.pi * (p - 0.5))
    if df == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    tail = 2 * (1 - p)
    a = 1 / (df - 0.5)
    b = (48 / a) / a
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * df
    y = (d * tail) ** (2 / df)
    if y > a + 0.05:
        x = NormalDist().inv_cdf(tail / 2)
        y = x * x
        if df < 5:
            c += 0.3 * (df - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1 / (((df + 6) / (df * y) - 0.089 * d - 0.822) * (df + 2) * 3) + 0.5 / (df + 4)) * y - 1) * (
            df + 1
        ) / (df + 2) + 1 / y
    return math.sqrt(df * y)
