"""A run stops: why is written first, its desktops go away, and when the last is gone it has ended."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from console.actions.audit import record
from console.actor import Actor
from console.doorbell import ring
from console.models import Membership
from desktops.actions import lease
from desktops.models import Assignment, Computer
from runs.events import RunStopping, append
from runs.models import Attempt, Prefix, Run

from .attempts import end_attempt
from .prefixes import end_all, forks
from .transitions import move_run

Reason = Run.StopReason


class NotCancellable(Exception):
    """The run has already ended, or is ending."""


class MayNotCancel(Exception):
    """Only its creator, admins and owners may cancel a run."""


def may_cancel(run: Run, membership: Membership) -> bool:
    return membership.manages or run.creator_id == membership.user_id


@transaction.atomic
def cancel_run(run: Run, *, actor: Actor) -> Run:
    """Stop a run at once. Cancelling one that is being cancelled already changes nothing."""
    row = _locked(run)
    if row.is_terminal:
        raise NotCancellable(f"Run #{row.number} has already ended.")
    if actor.kind != "operator" and actor.kind != "system":
        membership = Membership.objects.filter(workspace=row.workspace, user=actor.user).first()
        if membership is None or not may_cancel(row, membership):
            raise MayNotCancel("Only the run's creator, admins and owners may cancel it.")
    if row.stop_reason and row.status != Run.Status.CANCELLING:
        # Why it ends is written already, and the first reason stands.
        raise NotCancellable(f"Run #{row.number} is ending already: {row.get_stop_reason_display()}.")
    if not row.stop_reason:
        reason = Reason.CANCELLED_BY_OPERATOR if actor.kind == "operator" else Reason.CANCELLED_BY_USER
        record(
            workspace=row.workspace,
            actor=actor,
            action="run.cancelled",
            subject=f"run #{row.number}",
            detail={"name": row.name, "was": row.status},
        )
        begin_stop(row, reason, actor=actor)
    return row


def _locked(run: Run) -> Run:
    return (
        Run.objects.select_for_update(of=["self"], no_key=True)
        .select_related("workspace", "budget")
        .get(pk=run.pk)
    )


def live_work(run: Run) -> QuerySet[Assignment]:
    """Assignments of the run's attempts and prefixes that a worker still holds."""
    live = Attempt.objects.filter(run=run, status__in=Attempt.LIVE).order_by().values("pk")
    if forks(run):
        playing = Prefix.objects.filter(run=run, status=Prefix.Status.RUNNING)
        live = live.union(playing.order_by().values("pk"))
    return Assignment.objects.live().filter(kind__in=["attempt", "prefix"], subject__in=live)


def live_assignments(run: Run) -> list[Assignment]:
    """They, oldest first, locked."""
    return list(live_work(run).select_for_update(of=["self"], no_key=True).order_by("pk"))


def begin_stop(run: Run, reason: str, *, actor: Actor, detail: str = "") -> None:
    """Write the reason and tell the workers. The caller holds the run's lock; `finish_if_idle` ends it."""
    run.stop_reason, run.stop_detail = reason, detail
    run.save(update_fields=["stop_reason", "stop_detail"])
    append(run, RunStopping(reason=reason, actor=actor.label, detail=detail))
    if Run.ENDS_AS[Reason(reason)] == Run.Status.CANCELLED:
        move_run(run, Run.Status.CANCELLING, actor=actor, reason=reason)
    for assignment in live_assignments(run):
        lease.stop(assignment, reason=reason)
    finish_if_idle(run, actor=actor)
    ring("supervisor")


def finish_if_idle(run: Run, *, actor: Actor) -> bool:
    """End a stopping run once no worker holds anything of it and all is paid. What never played is cancelled."""
    if not run.stop_reason or run.is_terminal or live_assignments(run):
        return False
    if Computer.objects.filter(group=run.pk).held().exists():
        return False  # a lost worker's desktop still costs until it has ended itself
    waiting = Attempt.objects.filter(run=run, status=Attempt.Status.QUEUED)
    for attempt in waiting.filter(tries__gt=0):  # its log has begun, and is to say how it ended
        end_attempt(run, attempt, status=Attempt.Status.CANCELLED)
    waiting.update(status=Attempt.Status.CANCELLED)
    if forks(run):
        end_all(run)
    reason = Reason(run.stop_reason)
    move_run(run, Run.ENDS_AS[reason], actor=actor, reason=reason, detail=run.stop_detail)
    return True
