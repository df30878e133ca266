"""What an evaluation has shown: a block for each judge, and no total over judges.

Every figure of page, API and export comes from here; the formulas are `statistics`'.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.db.models import Count, Q, Sum

from console.models import LedgerEntry
from evaluations import statistics
from evaluations.models import Evaluation, Rollout, RolloutTry

KS: Final = (1, 2, 4, 8, 16, 32, 64)
VALID = Q(verifier=Rollout.Verifier.VALID)
SUCCESS = VALID & Q(reward__gte=1.0)
ENDED = Q(status__in=Rollout.TERMINAL)


@dataclass(frozen=True)
class Tally:
    """`n` rollouts; `ended` of them are over, `valid` of those were judged, `success` of those succeeded."""

    n: int
    ended: int
    valid: int
    success: int

    @property
    def rate(self) -> float | None:
        """Of the judged ones."""
        return self.success / self.valid if self.valid else None


@dataclass(frozen=True)
class Spread:
    """Of success rates: how many groups have one, the lowest and the highest."""

    groups: int
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Block:
    judge: str
    all: Tally
    coverage: float | None  # valid of ended
    interval: statistics.Interval | None
    tasks: dict[str, Tally]
    seeds: Spread
    pass_at_k: dict[int, float]
    memo_hits: int
    billed: int
    cost: Decimal


@dataclass(frozen=True)
class Comparison:
    """Of one judge in two evaluations, over the tasks that both have. Positive: the second does better."""

    judge: str
    first: Tally
    second: Tally
    difference: statistics.Difference | None
    only_first: int = 0
    only_second: int = 0


def report(evaluation: Evaluation) -> list[Block]:
    rows = _rows(evaluation)
    return [_block(evaluation, judge, rows[judge]) for judge in sorted(rows)]


def compare(first: Evaluation, second: Evaluation) -> list[Comparison]:
    """Of the judges that both have, and no others: verdicts of different judges are not compared."""
    one, other = _rows(first), _rows(second)
    found = []
    for judge in sorted(one.keys() & other.keys()):
        rates = [_by_task_and_seed(rows[judge]) for rows in (one, other)]
        found.append(
            Comparison(
                judge,
                _total(one[judge]),
                _total(other[judge]),
                statistics.paired_difference(*rates),
                only_first=len(rates[0].keys() - rates[1].keys()),
                only_second=len(rates[1].keys() - rates[0].keys()),
            )
        )
    return found


Row = dict[str, Any]


def _rows(evaluation: Evaluation) -> dict[str, list[Row]]:
    """Counts by judge, task and seed: one query, whatever the size."""
    counted = (
        Rollout.objects.for_workspace(evaluation.workspace)
        .filter(evaluation=evaluation)
        .values("batch__judge", "task__task_id", "seed")
        .annotate(
            n=Count("pk"),
            ended=Count("pk", filter=ENDED),
            valid=Count("pk", filter=VALID),
            success=Count("pk", filter=SUCCESS),
            memo=Count("pk", filter=Q(source__isnull=False)),
        )
        .order_by("batch__judge", "task__task_id", "seed")
    )
    rows = defaultdict(list)
    for row in counted:
        rows[row["batch__judge"]].append(row)
    return rows


def _total(rows: Sequence[Row]) -> Tally:
    return Tally(*(sum(row[name] for row in rows) for name in ("n", "ended", "valid", "success")))


def _grouped(rows: Sequence[Row], by: str) -> dict[Any, Tally]:
    groups = defaultdict(list)
    for row in rows:
        groups[row[by]].append(row)
    return {key: _total(group) for key, group in groups.items()}


def _by_task_and_seed(rows: Sequence[Row]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["valid"]:
            found[row["task__task_id"] or ""].append(row["success"] / row["valid"])
    return found


def _block(evaluation: Evaluation, judge: str, rows: Sequence[Row]) -> Block:
    every, tasks = _total(rows), _grouped(rows, "task__task_id")
    rates = [tally.rate for tally in _grouped(rows, "seed").values() if tally.rate is not None]
    memo = sum(row["memo"] for row in rows)
    return Block(
        judge,
        every,
        every.valid / every.ended if every.ended else None,
        statistics.wilson(every.success, every.valid),
        {name or "": tally for name, tally in tasks.items()},
        Spread(len(rates), min(rates, default=None), max(rates, default=None)),
        _pass_at_k(list(tasks.values())),
        memo,
        every.ended - memo,
        _cost(evaluation, judge),
    )


def _pass_at_k(tasks: Sequence[Tally]) -> dict[int, float]:
    """Mean over the tasks, for each k that every task has enough judged rollouts for."""
    least = min((tally.valid for tally in tasks), default=0)
    return {
        k: sum(statistics.pass_at_k(tally.valid, tally.success, k) or 0.0 for tally in tasks) / len(tasks)
        for k in KS
        if k <= least
    }


def _cost(evaluation: Evaluation, judge: str) -> Decimal:
    """What the desktops of its tries have cost, dollars."""
    tries = RolloutTry.objects.filter(rollout__evaluation=evaluation, rollout__batch__judge=judge)
    entries = LedgerEntry.objects.filter(
        workspace=evaluation.workspace, budget=evaluation.budget_id, subject__in=tries.values("computer")
    )
    return entries.aggregate(sum=Sum("cost"))["sum"] or Decimal(0)
