"""Prefixes are opened for a group of attempts, played, saved, and let go: one verb each. The run's row is locked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils import timezone

from desktops.actions.states import no_longer_wanted
from desktops.models import Assignment, Computer, State, Worker
from runs import limits
from runs.events import PrefixEnded, PrefixOffered, PrefixReleased, TryFailed, append
from runs.models import Attempt, Prefix, PrefixTry, Run
from runs.pending import write

from .attempts import tried_again

S = Prefix.Status


def forks(run: Run) -> bool:
    """Whether attempts of the run share a prefix."""
    return bool(run.spec["fork_copies"] > 1 and run.spec["prefix_steps"])


def open_prefix(run: Run, first: Attempt) -> Prefix:
    """For the group of which this attempt is the first: all of them are to start from it."""
    each = run.spec["fork_copies"]
    prefix = Prefix.objects.create(
        workspace=run.workspace,
        run=run,
        number=(first.number - 1) // each + 1,
        task=first.task,
        round=first.round,
        copy=first.copy,
    )
    Attempt.objects.filter(run=run, number__range=(first.number, first.number + each - 1)).update(
        prefix=prefix
    )
    return prefix


def begin_try(run: Run, prefix: Prefix, assignment: Assignment, worker: Worker) -> PrefixTry:
    """The prefix was handed to a worker."""
    prefix.status, prefix.tries, prefix.worker = S.RUNNING, prefix.tries + 1, worker
    prefix.steps, prefix.screenshot, prefix.started_at = 0, "", prefix.started_at or timezone.now()
    write(run, prefix, "status", "tries", "worker", "steps", "screenshot", "started_at")
    said = PrefixOffered(
        task=prefix.task.task_id,
        round=prefix.round,
        parallel_copy=prefix.copy,
        try_number=prefix.tries,
        worker=worker.name,
    )
    append(run, said, prefix=prefix)
    return PrefixTry.objects.create(prefix=prefix, number=prefix.tries, assignment=assignment)


def on_computer(run: Run, prefix: Prefix, one: PrefixTry, computer: Computer) -> None:
    prefix.computer = one.computer = computer
    write(run, prefix, "computer")
    write(run, one, "computer")


def end_try(
    run: Run,
    one: PrefixTry,
    *,
    ok: bool,
    at: datetime | None,
    detail: str,
    reasons: Collection[str] = (),
) -> None:
    one.ok, one.ended_at, one.detail = ok, at or timezone.now(), detail
    one.invalid_reasons = list(reasons)
    write(run, one, "ok", "ended_at", "detail", "invalid_reasons")


def fail_try(
    run: Run, prefix: Prefix, one: PrefixTry, *, reasons: list[str], detail: str, at: datetime | None = None
) -> None:
    """It was not saved: it is played again, or each of its attempts plays it."""
    end_try(run, one, ok=False, at=at, detail=detail, reasons=reasons)
    if prefix.tries < limits.TRIES and tried_again(run, reasons, one.assignment):
        said = TryFailed(try_number=one.number, reasons=reasons, detail=detail[:500])
        append(run, said, prefix=prefix)
        _let_go(run, prefix)
        prefix.status = S.QUEUED
        write(run, prefix, "status")
        return
    end_prefix(run, prefix, status=S.ERROR, at=at, reasons=reasons)


def end_prefix(
    run: Run, prefix: Prefix, *, status: str, at: datetime | None = None, reasons: Collection[str] = ()
) -> None:
    """It is saved, given up (its attempts play it themselves), or cancelled. `at`: by its worker's clock."""
    if status != S.SAVED:
        _let_go(run, prefix)
    now = timezone.now()
    prefix.status, prefix.invalid_reasons = status, list(reasons)
    prefix.ended_at = max(prefix.started_at or now, min(at or now, now))
    write(run, prefix, "status", "invalid_reasons", "ended_at")
    append(run, PrefixEnded(status=status, reasons=list(reasons), tries=prefix.tries), prefix=prefix)


def release(run: Run, prefix: Prefix) -> None:
    """Nothing will be forked from it any more: its worker is told to forget what was saved."""
    if prefix.state is not None:
        no_longer_wanted([prefix.state])
    prefix.status = S.DONE
    write(run, prefix, "status")
    append(run, PrefixReleased(), prefix=prefix)


def release_ended(run: Run) -> None:
    """Those whose last attempt has ended."""
    going_on = Attempt.objects.filter(prefix=OuterRef("pk")).exclude(status__in=Attempt.TERMINAL)
    saved = Prefix.objects.filter(run=run, status=S.SAVED).exclude(Exists(going_on))
    for prefix in saved.select_related("state").order_by("number"):
        release(run, prefix)


def end_all(run: Run) -> None:
    """The run ends: what was saved is let go, what was not played is cancelled."""
    for prefix in Prefix.objects.filter(run=run).open().select_related("state").order_by("number"):
        if prefix.status == S.SAVED:
            release(run, prefix)
        else:
            end_prefix(run, prefix, status=S.CANCELLED)


def _let_go(run: Run, prefix: Prefix) -> None:
    """What a try saved that did not end well is of no use."""
    if prefix.state is not None:
        no_longer_wanted([prefix.state])
        prefix.state, prefix.state_digest = None, ""
        write(run, prefix, "state", "state_digest")


def wanted_by_runs(states: Collection[State]) -> Mapping[UUID, str]:
    """Of these, those that forks of a run are yet to start from."""
    found = Prefix.objects.filter(state__in=states).open().select_related("run")
    return {
        prefix.state_id: f"run #{prefix.run.number}, whose forks start from it"
        for prefix in found
        if prefix.state_id is not None
    }
