"""Attempts are made round by round and moved one verb at a time; the run's counters move in the same transaction."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from itertools import product
from typing import Any, Final
from uuid import uuid4

from django.utils import timezone

from console.actions.budgets import cost_of, left_now
from console.bulk import columns_of, insert_rows
from desktops.actions.lease import SLICE
from desktops.models import Assignment, Computer, Worker
from runs.events import AttemptEnded, AttemptOffered, DesktopTakenOver, RoundCreated, TryFailed, append
from runs.models import Attempt, AttemptTry, Run
from runs.pending import write

A = Attempt.Status
V = Attempt.Verifier

# Without a verdict for one of these, a checker has spoken or somebody has interfered: the verifier says invalid.
# For every other reason nothing was checked at all.
SAYS_INVALID: Final = {"checker_error", "fork_mismatch", "human_intervened"}


def tried_again(run: Run, reasons: Collection[str], assignment: Assignment) -> bool:
    """Unless trying again would meet the same end. A desktop that nothing paid for is tried again where there is money
    left: then it was cut off from its console, or stood still, for longer than it had been paid ahead."""
    if run.stop_reason or "human_intervened" in reasons:
        return False
    if "paid_until_reached" not in reasons:
        return True
    left = left_now(run.budget)
    return left is None or left >= cost_of(Decimal(SLICE.seconds), assignment.rate_usd_per_hour)


def per_round(run: Run) -> int:
    return len(run.task_ids) * run.spec["parallel_copies"] * run.spec["fork_copies"]


def create_next_round(run: Run) -> int:
    """Store the attempts of the next round, in the order of play. Returns how many; 0 when all rounds are stored.

    A reopened run gets no more of them: what was not stored when it first ended has counted as cancelled.
    """
    if run.reopened or run.rounds_created >= run.spec["rounds"]:
        return 0
    one = columns_of(Attempt(workspace_id=run.workspace_id, run=run, round=run.rounds_created + 1))
    places = product(
        run.task_ids,
        range(1, run.spec["parallel_copies"] + 1),
        range(1, run.spec["fork_copies"] + 1),
    )
    numbered = enumerate(places, start=run.rounds_created * per_round(run) + 1)
    rows = [
        one | {"id": uuid4(), "number": number, "task_id": task_id, "copy": copy, "fork": fork}
        for number, (task_id, copy, fork) in numbered
    ]
    insert_rows(Attempt, rows)
    run.rounds_created += 1
    run.save(update_fields=["rounds_created"])
    append(run, RoundCreated(round=run.rounds_created, attempts=len(rows)))
    return len(rows)


def _counted(attempt: Attempt) -> dict[str, int]:
    """What the attempt adds to each of its run's counters. Queued ones are counted from the plan."""
    valid = attempt.verifier == V.VALID
    return {
        **{
            status: int(attempt.status == status)
            for status in (A.RUNNING, A.VERIFYING, A.DONE, A.ERROR, A.CANCELLED)
        },
        "valid": int(valid),
        "invalid": int(attempt.verifier == V.INVALID),
        "success": int(valid and (attempt.reward or 0) >= 1.0),
    }


def change(run: Run, attempt: Attempt, **fields: Any) -> None:
    """Write fields of an attempt and move the counters by the difference. The run's row is locked."""
    before = _counted(attempt)
    for name, value in fields.items():
        setattr(attempt, name, value)
    write(run, attempt, *fields)
    after = _counted(attempt)
    moved = [name for name in after if after[name] != before[name]]
    for name in moved:
        setattr(run, name, getattr(run, name) + after[name] - before[name])
    if moved:
        write(run, run, *moved)


def begin_try(
    run: Run, attempt: Attempt, assignment: Assignment, worker: Worker, *, fork_method: str = ""
) -> AttemptTry:
    """The attempt was handed to a worker."""
    change(
        run,
        attempt,
        status=A.RUNNING,
        tries=attempt.tries + 1,
        worker=worker,
        fork_method=fork_method,
        steps=0,
        started_at=attempt.started_at or timezone.now(),
    )
    append(run, AttemptOffered(try_number=attempt.tries, worker=worker.name), attempt=attempt)
    return AttemptTry.objects.create(attempt=attempt, number=attempt.tries, assignment=assignment)


def on_taken_over(
    run: Run, attempt: Attempt, one: AttemptTry, *, computer: str, by: str, at: datetime | None = None
) -> None:
    """A person acts on the desktop from now on: the attempt has no verdict to come, and is not played again."""
    one.invalid_reasons = ["human_intervened"]
    write(run, one, "invalid_reasons")
    append(run, DesktopTakenOver(computer=computer, by=by), attempt=attempt, at=at)


def fail_try(
    run: Run,
    attempt: Attempt,
    one: AttemptTry,
    *,
    reasons: list[str],
    detail: str,
    checker_error: str,
    at: datetime | None = None,
) -> None:
    """An infrastructure fault ended a try: play the attempt again, or end it without a verdict. Never a Fail."""
    reasons = one.invalid_reasons or reasons  # what was known before its end stands, whatever ended it
    one.ok, one.ended_at = False, at or timezone.now()
    one.invalid_reasons, one.detail, one.checker_error = reasons, detail, checker_error
    write(run, one, "ok", "ended_at", "invalid_reasons", "detail", "checker_error")
    if attempt.tries < attempt.tries_allowed and tried_again(run, reasons, one.assignment):
        append(run, TryFailed(try_number=one.number, reasons=reasons, detail=detail[:500]), attempt=attempt)
        change(run, attempt, status=A.QUEUED)
        return
    spoke = bool(SAYS_INVALID.intersection(reasons))
    end_attempt(
        run,
        attempt,
        status=A.DONE if spoke else A.ERROR,
        at=at,
        verifier=V.INVALID if spoke else V.NOT_CHECKED,
        invalid_reasons=reasons,
        checker_error=checker_error,
    )


def end_attempt(
    run: Run, attempt: Attempt, *, status: str, at: datetime | None = None, **fields: Any
) -> None:
    """`at` is when it ended by its worker's clock; what that says of the future, or from before its start, is not
    believed."""
    now = timezone.now()
    ended = max(attempt.started_at or now, min(at or now, now))
    change(run, attempt, status=status, ended_at=ended, **fields)
    append(
        run,
        AttemptEnded(
            status=attempt.status,
            verifier=attempt.verifier,
            outcome=_outcome(attempt),
            reasons=attempt.invalid_reasons,
            tries=attempt.tries,
        ),
        attempt=attempt,
    )


def _outcome(attempt: Attempt) -> str | None:
    """As the generated column has it, for a row that was not read back yet."""
    if attempt.verifier != V.VALID:
        return None
    return Attempt.Outcome.SUCCESS if (attempt.reward or 0) >= 1.0 else Attempt.Outcome.FAIL


def on_computer(run: Run, attempt: Attempt, one: AttemptTry, computer: Computer) -> None:
    attempt.computer = one.computer = computer
    write(run, attempt, "computer")
    write(run, one, "computer")
