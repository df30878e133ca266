"""Where the time of a run's attempts went: the one definition of the times on its Metrics tab and in its manifest.

Of the SAMPLE finished attempts with the highest numbers, so that a look costs the same at any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection
from django.utils import timezone

from .models import Run

SAMPLE: Final = 1_000
STEP_PARTS: Final = ("policy_ms", "act_ms", "settle_ms", "grab_ms")

_SAMPLED: Final = """
    WITH sampled AS (
        SELECT id, started_at, ended_at FROM runs_attempt
        WHERE run_id = %s AND status IN ('done', 'error') ORDER BY number DESC LIMIT %s
    )
"""


def pauses(run: Run) -> list[tuple[datetime, datetime]]:
    """From each end of a run that was reopened until it went on; one that has not yet lasts until now."""
    found: list[tuple[datetime, datetime]] = []
    ended: datetime | None = None
    rows = run.events.filter(kind="run_status").order_by("seq").values_list("at", "data")
    for at, data in rows:
        if data["new"] in Run.TERMINAL:
            ended = at
        elif ended and data["new"] == Run.Status.PREPARING:
            found.append((ended, at))
            ended = None
    if ended and not run.is_terminal:
        found.append((ended, timezone.now()))
    return found


def durations(run: Run) -> list[float]:
    """Seconds from the first desktop asked for until the end, of each sampled attempt, shortest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""{_SAMPLED}
            SELECT extract(epoch FROM ended_at - started_at)::float FROM sampled
            WHERE started_at IS NOT NULL AND ended_at IS NOT NULL
            """,  # noqa: S608 only the constant above is put in
            [run.pk, SAMPLE],
        )
        return sorted(row[0] for row in cursor.fetchall())


@dataclass(frozen=True)
class Spread:
    median: float
    p95: float


def spread(ordered: list[float]) -> Spread | None:
    """None of nothing."""
    return Spread(percentile(ordered, 0.5), percentile(ordered, 0.95)) if ordered else None


def percentile(ordered: list[float], p: float) -> float:
    """Interpolated between its neighbours, as PostgreSQL's percentile_cont."""
    at = p * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def step_parts(run: Run) -> dict[str, Spread]:
    """Milliseconds of each part of a step, by STEP_PARTS; empty without steps. Interpolated, as percentile_cont."""
    columns = ", ".join(
        f"percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY step.{name})" for name in STEP_PARTS
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"""{_SAMPLED}
            SELECT {columns} FROM sampled
            JOIN runs_attempttry one ON one.attempt_id = sampled.id
            JOIN runs_step step ON step.attempt_try_id = one.id
            """,  # noqa: S608 the names above are put in
            [run.pk, SAMPLE],
        )
        row = cursor.fetchone()
    return {name: Spread(*values) for name, values in zip(STEP_PARTS, row, strict=True) if values}


@dataclass(frozen=True)
class DesktopTime:
    """Seconds. `up`: that desktops of the sampled attempts existed; the rest of it, by what they were doing in tries
    that went well, and `broken` the whole of the others."""

    up: float
    policy: float
    settle: float
    act: float
    start: float
    setup: float
    verify: float
    broken: float

    @property
    def rest(self) -> float:
        named = self.policy, self.settle, self.act, self.start, self.setup, self.verify, self.broken
        return max(0.0, self.up - sum(named))


def desktop_time(run: Run) -> DesktopTime:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""{_SAMPLED}, tries AS (
                SELECT one.id, one.setup_seconds, one.verdict, one.ok, computer.ready_seconds, extract(
                       epoch FROM coalesce(computer.stopped_at, one.ended_at) - computer.started_at)::float AS up
                FROM sampled JOIN runs_attempttry one ON one.attempt_id = sampled.id
                LEFT JOIN desktops_computer computer ON computer.id = one.computer_id
            ), steps AS (
                SELECT sum(policy_ms) / 1000 AS policy, sum(settle_ms) / 1000 AS settle,
                       sum(act_ms + grab_ms) / 1000 AS act
                FROM runs_step step JOIN tries ON tries.id = step.attempt_try_id AND tries.ok
            )
            SELECT sum(up), (SELECT policy FROM steps), (SELECT settle FROM steps), (SELECT act FROM steps),
                   sum(ready_seconds) FILTER (WHERE ok), sum(setup_seconds) FILTER (WHERE ok),
                   sum((verdict ->> 'seconds')::float) FILTER (WHERE ok), sum(up) FILTER (WHERE NOT ok)
            FROM tries
            """,  # noqa: S608 only the constant above is put in
            [run.pk, SAMPLE],
        )
        return DesktopTime(*(float(seconds or 0) for seconds in cursor.fetchone()))


@dataclass(frozen=True)
class OtherTime:
    """Seconds that desktops existed which no finished attempt had to itself: those that played the steps which forks
    share, and those of attempts that were cancelled. With DesktopTime.up, of a run that has ended and is not sampled,
    it is every second in the ledger."""

    prefixes: float
    cancelled: float


def other_time(run: Run) -> OtherTime:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT sum(up) FILTER (WHERE purpose = 'prefix'), sum(up) FILTER (WHERE purpose <> 'prefix')
            FROM (
                SELECT computer.purpose, extract(epoch FROM computer.stopped_at - computer.started_at)::float AS up
                FROM desktops_computer computer
                LEFT JOIN runs_attempttry one ON one.computer_id = computer.id
                LEFT JOIN runs_attempt attempt ON attempt.id = one.attempt_id
                WHERE computer."group" = %s AND computer.stopped_at IS NOT NULL
                  AND (computer.purpose = 'prefix' OR attempt.status = 'cancelled')
            ) AS gone
            """,
            [run.pk],
        )
        return OtherTime(*(float(seconds or 0) for seconds in cursor.fetchone()))
