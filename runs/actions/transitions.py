"""The run's status: one table of what may follow what, and the one function that writes it."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.actor import Actor
from console.doorbell import ring
from runs.events import RunStatusChanged, append
from runs.models import Run
from runs.notices import run_ended
from runs.receipt import await_sweeps, forget_sweeps

S = Run.Status
_ENDS: Final = {S.COMPLETED, S.FAILED, S.CANCELLED}
MAY_FOLLOW: Final[dict[str, set[str]]] = {
    S.QUEUED: {S.PREPARING, S.CANCELLING} | _ENDS,
    S.PREPARING: {S.RUNNING, S.RECOVERING, S.VERIFYING, S.CANCELLING} | _ENDS,
    S.RUNNING: {S.VERIFYING, S.RECOVERING, S.CANCELLING} | _ENDS,
    S.VERIFYING: {S.RUNNING, S.RECOVERING, S.CANCELLING} | _ENDS,
    S.RECOVERING: {S.RUNNING, S.VERIFYING, S.CANCELLING} | _ENDS,
    S.CANCELLING: set(_ENDS),
    # Only to be reopened: see runs.actions.retry. What a person or an operator cancelled stays so.
    S.COMPLETED: {S.QUEUED},
    S.FAILED: {S.QUEUED},
    S.CANCELLED: set(),
}


class NotAllowed(Exception):
    """This status cannot follow the run's present one."""

    def __init__(self, run: Run, new: str) -> None:
        super().__init__(f"A run that is {run.get_status_display().lower()} cannot become {new}.")


def move_run(run: Run, new: str, *, actor: Actor, reason: str = "", detail: str = "") -> None:
    """Write the new status and its event. The caller holds the lock on the run's row."""
    if new not in MAY_FOLLOW[run.status]:
        raise NotAllowed(run, new)
    old, run.status = run.status, new
    fields = ["status"]
    if new == S.QUEUED:
        run.earlier_seconds = run.time_used(timezone.now())
        run.reopened, run.resumed_at, run.ended_at = run.reopened + 1, None, None
        run.stop_reason = run.stop_detail = ""
        forget_sweeps(run)
        fields += ["earlier_seconds", "reopened", "resumed_at", "ended_at", "stop_reason", "stop_detail"]
    if new == S.PREPARING:
        began = "resumed_at" if run.reopened else "started_at"
        setattr(run, began, timezone.now())
        fields.append(began)
    if new in Run.TERMINAL:
        run.stop_reason, run.stop_detail, run.ended_at = reason, detail, timezone.now()
        fields += ["stop_reason", "stop_detail", "ended_at", "cancelled"]
        # Whatever was never played, rounds that were never stored included, counts as cancelled.
        run.cancelled = run.planned - run.done - run.error
    run.save(update_fields=fields)
    append(run, RunStatusChanged(old=old, new=new, reason=reason, actor=actor.label, detail=detail))
    if new in Run.TERMINAL:
        await_sweeps(run)
        run_ended(run)
    ring("supervisor", f"workspace.{run.workspace.slug}")
