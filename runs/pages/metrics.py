"""Metrics: success by task, durations, step latency, cost over time, where desktop time went. Drawn by the server."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db import connection
from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.money import money
from console.pages.figures import Part, place, segments, share
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.templatetags.deskyard import duration
from runs import scoring, timing
from runs.models import Run, Task
from runs.pages import sentences
from runs.pages.forecast import forecast
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.pages.waffle import tasks_of
from runs.scoring import TaskTotal

TASKS_SHOWN: Final = 60
BINS: Final = 14
POINTS: Final = 80
PLOT: Final = 120  # px of the plot's height


class TaskLine(NamedTuple):
    task: Task
    total: TaskTotal
    at: str
    low: str
    high: str
    interval: str
    parts: list[Part]


class Latency(NamedTuple):
    word: str
    median: float
    p95: float
    parts: list[Part]


class Spent(NamedTuple):
    """`css`: a class, or the name of a hatch."""

    word: str
    css: str
    seconds: float
    share: float

    @property
    def fill(self) -> str:
        return self.css if self.css.startswith("hatch-") else ""


@require_safe
@never_stored
@workspace_page
def metrics(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    totals = scoring.run_totals(run)
    by_task = task_lines(run, totals)
    spent = time_spent(run)
    context = {
        "by_task": by_task[:TASKS_SHOWN],
        "tasks_left_out": max(0, len(by_task) - TASKS_SHOWN),
        "latency": latency(run),
        "durations": durations(run),
        "curve": cost_curve(run, timezone.now()),
        "time_spent": spent,
        "time_parts": segments(1, {one.css: one.share for one in spent}),
        "time_in_all": sum(one.seconds for one in spent),
        "reason_words": sentences.INVALID_REASONS,
        "no_verdict_count": sum(total.no_verdict for total in totals.values()),
        "no_verdict": scoring.no_verdict(run),
        "sampled": run.finished > timing.SAMPLE,
        "sample": timing.SAMPLE,
    }
    return render_tab(request, run, "run-metrics", "runs/metrics.html", context)


def task_lines(run: Run, totals: dict[int, TaskTotal]) -> list[TaskLine]:
    """In the task set's order: neighbours whose intervals overlap are not to be ranked."""
    drawn = []
    for pk, task in tasks_of(run).items():
        total = totals.get(pk, TaskTotal(0, 0, 0))
        parts = segments(
            max(total.finished, 1),
            {"f_ok": total.success, "hatch_void": total.no_verdict, "f_failbg": total.fail},
        )
        if not total.valid or run.is_scripted:
            drawn.append(TaskLine(task, total, "", "", "", "", parts))
            continue
        low, high = scoring.wilson(total.success, total.valid)
        drawn.append(
            TaskLine(
                task,
                total,
                place(100 * total.success / total.valid),
                place(100 * low),
                place(100 * high),
                f"{100 * low:.0f}–{100 * high:.0f}",
                parts,
            )
        )
    return drawn


PARTS: Final = {
    "policy_ms": "Policy reply",
    "settle_ms": "Wait for the screen to settle",
    "act_ms": "Action",
    "grab_ms": "Screenshot",
}


def latency(run: Run) -> list[Latency]:
    """Median and 95th percentile of each part of a step, in milliseconds."""
    found = timing.step_parts(run)
    most = max((part.p95 for part in found.values()), default=0) or 1
    return [
        Latency(
            word,
            part.median,
            part.p95,
            segments(most, {"f_ink2": part.median, "f_pale": part.p95 - part.median}),
        )
        for name, word in PARTS.items()
        if (part := found.get(name)) and part.p95 >= 0.5
    ]


@dataclass(frozen=True)
class Histogram:
    bars: list[tuple[str, str, str, str, int]]  # x, width, y, height, count
    ticks: list[tuple[str, str, str]]  # x, label, anchor
    median: str
    median_at: str
    median_anchor: str
    p95: str
    n: int


def durations(run: Run) -> Histogram | None:
    """How long attempts took, from the first desktop asked for until the end."""
    taken = timing.durations(run)
    whole = timing.spread(taken)
    if whole is None:
        return None
    step = _round_step(taken[-1] / BINS)
    bins = max(1, math.ceil((taken[-1] + 1e-9) / step))
    counted = [0] * bins
    for seconds in taken:
        counted[min(int(seconds / step), bins - 1)] += 1
    most, pitch = max(counted), 100 / bins
    bars = [
        (place(i * pitch + 0.3), place(pitch - 0.6), f"{PLOT - n / most * 96:.1f}", f"{n / most * 96:.1f}", n)
        for i, n in enumerate(counted)
    ]
    every = max(1, math.ceil(bins / 5))
    ticks = [
        (place(i * pitch), _axis_time(i * step, step), "start" if i == 0 else "middle")
        for i in range(0, bins, every)
    ]
    at = share(whole.median, bins * step)
    return Histogram(
        bars,
        ticks,
        _axis_time(whole.median, 0.1),
        place(at),
        "start" if at < 70 else "end",
        _axis_time(whole.p95, 0.1),
        len(taken),
    )


def _round_step(least: float) -> float:
    """The smallest of 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, … that is not below."""
    for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0):
        if step >= least:
            return step
    return math.ceil(least / 3_600) * 3_600.0


def _axis_time(seconds: float, step: float) -> str:
    return f"{seconds:.1f} s" if step < 1 and seconds < 60 else duration(seconds)


@dataclass(frozen=True)
class Curve:
    """In a plot whose height is PLOT px; the path in a box of 100 × 100."""

    path: str
    now_at: str
    now_y: float
    cap_y: float
    forecast_at: str
    forecast_y: float
    forecast_cost: float
    ticks: list[tuple[str, str, str]]
    grid: list[tuple[float, str]]


def cost_curve(run: Run, now: datetime) -> Curve | None:
    """What settled desktops had cost by then, up to the cap; dashed on to the forecast while the run lasts. The time
    between an end and going on again is left out, as of the time cap. None before anything is spent."""
    if run.started_at is None or run.budget.cap is None:
        return None
    coming = forecast(run, now)
    elapsed = max(run.time_used(now), 1.0)
    pauses = timing.pauses(run) if run.reopened else []
    begins, ends = [begun for begun, _ in pauses], [ended for _, ended in pauses]
    whole = max(coming.total_seconds, elapsed) if coming else elapsed
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT bucket, sum(cost) FROM (
                SELECT width_bucket(extract(epoch FROM since - %s - (
                    SELECT coalesce(sum(greatest(least(since, ended) - begun, interval '0')), interval '0')
                    FROM unnest(%s::timestamptz[], %s::timestamptz[]) AS pause(begun, ended)
                ))::float, 0, %s, %s) AS bucket, cost
                FROM console_ledgertally WHERE budget_id = %s AND span = 'slot'
            ) AS settled GROUP BY bucket ORDER BY bucket
            """,
            [run.started_at, begins, ends, elapsed, POINTS, run.budget_id],
        )
        settled: dict[int, float] = defaultdict(float)
        for bucket, cost in cursor.fetchall():
            settled[min(max(bucket, 1), POINTS)] += float(cost)
    if not settled:
        return None
    cap = float(run.budget.cap)
    top = max(cap if float(run.budget.spent) > cap / 5 else float(run.budget.spent) * 1.6, 1e-6)
    points, total = ["0,100"], 0.0
    for bucket in range(1, POINTS + 1):
        total += settled.get(bucket, 0.0)
        x = share(bucket / POINTS * elapsed, whole)
        points.append(f"{x:.2f},{100 - share(total, top):.2f}")
    ticks = [
        (place(at * 100), duration(whole * at), anchor)
        for at, anchor in ((0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1, "end"))
    ]
    grid = [(PLOT - PLOT * part / 4, money(top * part / 4)) for part in (1, 2, 3)]
    return Curve(
        " ".join(points),
        place(share(elapsed, whole)),
        PLOT - PLOT * share(total, top) / 100,
        PLOT - PLOT * share(cap, top) / 100 if cap <= top else -1,
        place(100),
        PLOT - PLOT * share(coming.cost, top) / 100 if coming else -1,
        coming.cost if coming else 0.0,
        ticks,
        grid,
    )


def time_spent(run: Run) -> list[Spent]:
    """Seconds that desktops existed, by what they were doing: all of them, or of the sampled attempts only."""
    time = timing.desktop_time(run)
    other = timing.other_time(run) if run.finished <= timing.SAMPLE else timing.OtherTime(0, 0)
    named = [
        ("Policy replies", "f-acc", time.policy),
        ("Screen settling", "f-ink2", time.settle),
        ("Actions and screenshots", "f-warn", time.act),
        ("Start", "f-ink", time.start),
        ("Task setup", "f-pale", time.setup),
        ("Verifying", "f-void", time.verify),
        ("Tries that broke", "f-fail", time.broken),
        ("Steps that forks share", "hatch-acc", other.prefixes),
        ("Attempts that were cancelled", "hatch-void", other.cancelled),
        ("Stopping and the rest", "f-line", time.rest),
    ]
    whole = sum(seconds for _, _, seconds in named) or 1
    return [Spent(word, css, seconds, seconds / whole) for word, css, seconds in named if seconds >= 0.005]
