"""What goes on while a run is cancelling or recovering, for its page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from desktops.models import Computer, Worker
from runs.actions.advance import NO_WORKER, SUPERVISOR
from runs.actions.offers import able_workers
from runs.actions.stop import live_work
from runs.models import Attempt, AttemptTry, Run

SHOWN = 8


@dataclass(frozen=True)
class Ending:
    """A run that was told to stop: since when, by whom, and what of it is still there."""

    since: datetime | None
    by: str
    desktops: int
    attempts: int


@dataclass(frozen=True)
class Recovery:
    """A run whose worker went quiet. `gives_up_at`: None while somebody is there that can play on."""

    since: datetime | None
    quiet: list[Worker]
    again: list[int]
    gives_up_at: datetime | None


def ending(run: Run) -> Ending | None:
    if run.is_terminal or not run.stop_reason:
        return None
    told = run.events.filter(kind="run_stopping").order_by("-seq").first()
    by = told.data["actor"] if told and told.data["actor"] != SUPERVISOR.label else ""
    held = Computer.objects.filter(group=run.pk).held().count()
    return Ending(told.at if told else None, by, held, run.running + run.verifying)


def recovery(run: Run) -> Recovery | None:
    if run.status != Run.Status.RECOVERING or run.stop_reason:
        return None
    since = run.events.filter(kind="run_status").order_by("-seq").values_list("at", flat=True).first()
    live = live_work(run).select_related("worker")
    quiet = {one.worker_id: one.worker for one in live if one.is_quiet}
    able = able_workers(run)
    away = [one for one in able_workers(run, connected=False) if one not in able]
    tries = AttemptTry.objects.filter(
        attempt__run=run, attempt__status__in=[*Attempt.LIVE, Attempt.Status.QUEUED]
    )
    again = tries.filter(invalid_reasons__contains=["worker_lost"]).values_list("attempt__number", flat=True)
    seen = [one.last_seen_at for one in away if one.last_seen_at]
    gives_up = max([since, *seen]) + NO_WORKER if since and not able else None
    lost = list(quiet.values()) or [one for one in away if one.last_seen_at]
    return Recovery(since, lost, sorted(set(again))[:SHOWN], gives_up)
