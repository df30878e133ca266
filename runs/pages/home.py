"""The workspace's home: what plays now, what needs somebody, the money, the desktops, what ended lately."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.models import Budget, Token
from console.money import money
from console.pages.figures import gauge
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.spending import so_far
from desktops.models import Computer, Worker
from runs.models import Run
from runs.pages import sentences
from runs.pages.budget import by_day
from runs.pages.forecast import forecast
from runs.pages.frame import never_stored, optional_address
from runs.pages.loaders import base_template
from runs.pages.overview import failed_url
from runs.pages.run_list import lines
from runs.pages.start import readiness

PLAYING_SHOWN: Final = 8
ENDED_SHOWN: Final = 6
DAYS: Final = 30
TOKEN_WARNING: Final = timedelta(days=7)
LATELY: Final = timedelta(days=7)
BUDGET_WARNING: Final = Decimal("0.9")


class Todo(NamedTuple):
    """A sentence, what more there is to know, and one thing to do. `heed` colours the icon."""

    icon: str
    title: str
    more: str
    href: str
    verb: str
    heed: bool = True


class Day(NamedTuple):
    x: str
    width: str
    y: str
    height: str
    css: str
    title: str


@require_safe
@never_stored
@workspace_page
def home(request: WorkspaceRequest) -> HttpResponse:
    workspace = request.workspace
    now = request.now
    every = Run.objects.for_workspace(workspace).select_related("budget", "creator", "task_set")
    playing = list(every.active().order_by("-number")[:PLAYING_SHOWN])
    ended = list(every.filter(status__in=Run.TERMINAL).order_by("-ended_at")[:ENDED_SHOWN])
    workers = list(Worker.objects.for_workspace(workspace).listed())
    budget = Budget.objects.for_workspace(workspace).filter(parent=None).first()
    ended_lines = lines(workspace, ended)
    used = so_far(workspace, [budget], now)[budget.pk] if budget else None
    context: dict[str, Any] = {
        "base_template": base_template(request),
        "slug": workspace.slug,
        "now": now,
        "playing": [(line, forecast(line.run, now, line.used)) for line in lines(workspace, playing)],
        "ended": ended_lines,
        "slots": slots(workspace, workers),
        "connected": sum(worker.is_connected for worker in workers),
        "workers": workers,
        "budget": budget,
        "used": used,
        "days": days(workspace, now.date(), used.spent - budget.spent if budget and used else Decimal(0)),
        "pipeline": next((line for line in ended_lines if _tells_of_the_pipeline(line.run)), None),
        "todos": todos(request, [*playing, *ended], workers, budget),
        "is_live": True,
        "new_run_url": optional_address("run-new", workspace.slug),
        "workers_url": optional_address("worker-list", workspace.slug),
        "purse": gauge(float(used.spent), float(budget.cap), float(used.ahead), None)
        if budget and used and budget.cap
        else {},
    }
    if not workspace.last_run_number:
        context |= readiness(request)
    reply = render(request, "runs/home.html", context)
    reply["Vary"] = "HX-Request, Cookie"
    return reply


def slots(workspace: Any, workers: list[Worker]) -> dict[str, Any]:
    """A box a slot of each connected worker: the run that holds it, or nothing. Two queries."""
    held = list(Computer.objects.for_workspace(workspace).held().values_list("worker_id", "group"))
    numbers = dict(
        Run.objects.for_workspace(workspace)
        .filter(pk__in={group for _, group in held if group})
        .values_list("pk", "number")
    )
    by_worker: dict[Any, list[int | None]] = defaultdict(list)
    for worker_id, group in held:
        by_worker[worker_id].append(numbers.get(group))
    shown = [
        (
            worker,
            by_worker[worker.pk],
            range(max(0, worker.slots - len(by_worker[worker.pk])) * worker.is_connected),
        )
        for worker in workers
        if worker.is_connected or by_worker[worker.pk]
    ]
    free = sum(len(empty) for worker, _, empty in shown if worker.is_connected)
    return {"workers": shown, "held": len(held), "free": free, "all": len(held) + free}


def days(workspace: Any, today: date, running: Decimal) -> dict[str, Any]:
    """Cost by day of the last DAYS days, as bars of at most 60 px."""
    since = today - timedelta(days=DAYS - 1)
    spent = dict(by_day(workspace, today, running=running))
    most = max(spent.values(), default=Decimal(0))
    pitch = 100 / DAYS
    bars = []
    for index in range(DAYS):
        day = since + timedelta(days=index)
        cost = spent.get(day, Decimal(0))
        height = float(cost / most) * 60 if most else 0.0
        bars.append(
            Day(
                f"{index * pitch + pitch * 0.1:.2f}%",
                f"{pitch * 0.8:.2f}%",
                f"{76 - height:.1f}",
                f"{height:.1f}",
                "f-acc" if day == today else "f-ink2",
                f"{day:%-d %B}",
            )
        )
    return {
        "bars": bars,
        "today": spent.get(today, Decimal(0)),
        "total": sum(spent.values(), Decimal(0)),
        "first": f"{since:%-d %b}",
        "last": f"{today:%-d %b}",
    }


def todos(
    request: WorkspaceRequest, runs: list[Run], workers: list[Worker], budget: Budget | None
) -> list[Todo]:
    """What somebody should look at, the costly first. One query, for tokens."""
    slug = request.workspace.slug
    found: list[Todo] = []
    workers_url = optional_address("worker-list", slug)
    if not any(worker.is_connected for worker in workers):
        waiting = sum(run.status in Run.ACTIVE for run in runs)
        more = (
            f"{waiting} runs wait for one"
            if waiting > 1
            else ("A run waits for one" if waiting else "Nothing can play")
        )
        found.append(Todo("wifi-off", "No worker is connected", more, workers_url, "Workers"))
    for worker in workers:
        lost = not worker.is_connected and worker.left_at is None and worker.last_seen_at
        if lost and any(other.is_connected for other in workers):
            last = f"{worker.last_seen_at:%-d %B, %H:%M}"
            found.append(
                Todo(
                    "wifi-off",
                    f"Worker {worker} is lost",
                    f"Last heard of on {last} UTC",
                    workers_url,
                    "Workers",
                )
            )
    if budget and budget.cap and budget.spent + budget.reserved >= budget.cap * BUDGET_WARNING:
        left = max(Decimal(0), budget.cap - budget.spent - budget.reserved)
        found.append(
            Todo(
                "wallet",
                f"{money(left)} of the workspace’s budget is left",
                "Runs stop where it ends",
                optional_address("budget", slug),
                "Budget",
            )
        )
    for run in runs:
        found.extend(_about(run, slug))
    if request.membership.manages:
        soon = timezone.now() + TOKEN_WARNING
        tokens = Token.objects.for_workspace(request.workspace).filter(
            revoked_at=None, expiry__lt=soon, expiry__gt=timezone.now()
        )
        for token in tokens.select_related("user")[:5]:
            found.append(
                Todo(
                    "key-round",
                    f"Token {token.name} expires on {token.expiry:%-d %B}",
                    f"It is {token.user}’s",
                    optional_address("token-list", slug),
                    "Tokens",
                )
            )
    return found


def _tells_of_the_pipeline(run: Run) -> bool:
    """A scripted test that somebody cancelled says nothing of it."""
    return run.is_scripted and run.status != Run.Status.CANCELLED


def _about(run: Run, slug: str) -> list[Todo]:
    """A run that failed, lacks verdicts, or stopped before its plan was played."""
    if run.ended_at and timezone.now() - run.ended_at > LATELY:
        return []
    href = reverse("run", args=[slug, run.number])
    if run.status == Run.Status.FAILED:
        return [
            Todo(
                "error",
                f"#{run.number} failed: {sentences.aim(run).lower()}",
                run.stop_detail or run.name,
                href,
                "Look",
            )
        ]
    missing = run.finished - run.valid
    if missing > 0:
        noun = "attempt has" if missing == 1 else "attempts have"
        return [
            Todo(
                "error",
                f"#{run.number}: {missing:,} {noun} no verdict",
                run.name,
                f"{href}#no-verdict",
                "Look",
            )
        ]
    if run.is_scripted and run.fail:
        noun = "attempt" if run.fail == 1 else "attempts"
        return [
            Todo(
                "fail",
                f"#{run.number}: {run.fail:,} {noun} failed",
                "Its checker found something else than the task asks for",
                failed_url(run, slug),
                f"See {'it' if run.fail == 1 else 'them'}",
            )
        ]
    if run.is_terminal and run.cancelled and run.stop_reason in ("budget_exceeded", "time_cap_reached"):
        title = (
            f"#{run.number} stopped at its {'spend' if run.stop_reason == 'budget_exceeded' else 'time'} cap"
        )
        more = (
            f"{run.cancelled:,} of {run.planned:,} attempts were not played to their end; its results stand"
        )
        return [Todo("wallet", title, more, href, "Look", heed=False)]
    return []
