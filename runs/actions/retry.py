"""Attempts that ended without a verdict are played again, in the same run, with every earlier try kept.

A run that goes on just gets them back in its queue. One that has ended is reopened, which is the one way back from a
terminal status: completed or failed → queued, by this verb alone, with an event that says how it had ended. The
database lets exactly this transition through, and no figure changes with it; the counters move after it, in the same
transaction. Verdicts are never touched, and what was cancelled stays cancelled.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from console.actions import audit
from console.actions.budgets import affordable, cost_of
from console.actor import Actor
from console.money import dollars
from desktops.actions.lease import SHORTEST
from desktops.actions.rates import rates_for
from desktops.models import TemplateVersion
from runs import limits
from runs.events import AttemptsRetried, RunReopened, append
from runs.models import Attempt, Run
from runs.spec import FieldError

from .caps import CapsRejected, MayNotChange, locked, require_may_change, set_caps
from .offers import able_workers
from .transitions import move_run

WITHOUT_VERDICT: Final = Q(status=Attempt.Status.ERROR) | Q(
    status=Attempt.Status.DONE, verifier=Attempt.Verifier.INVALID
)


class CannotRetry(Exception):
    """Nothing can be tried again in this run, as it is. `code` is stable, the message a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MayNotRetry(MayNotChange):
    """Only its creator, admins and owners may have a run's attempts tried again."""


@transaction.atomic
def retry_invalid(
    run: Run,
    *,
    actor: Actor,
    spend_cap_usd: Decimal | None = None,
    time_cap_minutes: int | None = None,
) -> int:
    """Queue again what ended without a verdict, under other caps if they are given. Returns how many attempts.

    1. Lock the run; may this actor, and is there anything that can be tried again?
    2. A run that has ended: write how it had ended, and reopen it.
    3. The new caps, and whether money and time are left at all.
    4. The attempts in one statement; the run's counters by what it changed.

    Raises MayNotRetry, CannotRetry, CapsRejected; then nothing has changed.
    """
    row = locked(run)
    require_may_change(row, actor, MayNotRetry)
    _refuse_what_cannot_go_on(row)
    found = _found(row)
    if row.is_terminal:
        was = {"status": row.status, "reason": row.stop_reason, "detail": row.stop_detail}
        append(row, RunReopened(actor=actor.label, attempts=found["all"], **was))
        move_run(row, Run.Status.QUEUED, actor=actor)
    else:
        append(row, AttemptsRetried(actor=actor.label, attempts=found["all"]))
    set_caps(row, spend_cap_usd=spend_cap_usd, time_cap_minutes=time_cap_minutes, actor=actor)
    _require_means(row)
    _queue_again(row, found)
    audit.record(
        workspace=row.workspace,
        actor=actor,
        action="run.retried",
        subject=f"run #{row.number}",
        detail={"attempts": found["all"], "reopened": row.reopened},
    )
    return found["all"]


def _refuse_what_cannot_go_on(run: Run) -> None:
    number = f"Run #{run.number}"
    if run.status == Run.Status.CANCELLED:
        raise CannotRetry("run_cancelled", f"{number} was cancelled, and stays so. A rerun starts anew.")
    if not run.is_terminal and run.stop_reason:
        raise CannotRetry("run_ending", f"{number} is ending just now. Try again when it has ended.")
    target = run.spec["stop_after_valid"]
    if target is not None and run.valid >= target:
        raise CannotRetry(
            "target_reached", f"{number} has the {target:,} valid attempts that it was to have."
        )
    if run.template_version.status != TemplateVersion.Status.PUBLISHED:
        raise CannotRetry("template_retired", f"Template {run.template_version} takes no more work.")


def _found(run: Run) -> dict[str, int]:
    """How many attempts there are to try again, by the counter that each is in."""
    rows = Attempt.objects.filter(WITHOUT_VERDICT, run=run)
    found = rows.aggregate(
        all=Count("pk"),
        error=Count("pk", filter=Q(status=Attempt.Status.ERROR)),
        done=Count("pk", filter=Q(status=Attempt.Status.DONE)),
        invalid=Count("pk", filter=Q(verifier=Attempt.Verifier.INVALID)),
        spent=Count("pk", filter=Q(tries__gt=limits.MOST_TRIES - limits.TRIES)),
    )
    if not found["all"]:
        raise CannotRetry("nothing_to_retry", "Every attempt that has ended has a verdict or was cancelled.")
    if found["spent"]:
        raise CannotRetry("tried_too_often", f"An attempt was tried {limits.MOST_TRIES} times already.")
    return found


def _require_means(run: Run) -> None:
    """Reopened with nothing left to pay or no time left, it would only end again at once."""
    errors = []
    used, cap = run.time_used(timezone.now()), run.time_cap_minutes * 60
    if used >= cap:
        words = f"Its time cap of {run.time_cap_minutes:,} min is used up: give it a higher one."
        errors.append(FieldError("time_cap_minutes", "used_up", words))
    left, tightest = affordable(run.budget)
    version = run.template_version
    cheapest = min(rates_for(version, able_workers(run)).values(), default=version.rate_usd_per_hour)
    if left is not None and left < cost_of(Decimal(SHORTEST.seconds), cheapest):
        if tightest is not None and tightest.parent_id is None:
            errors.append(FieldError("", "workspace_budget_used_up", "The workspace’s budget is used up."))
        elif tightest is not None and tightest.pk != run.budget_id:
            words = "The spend ceiling of the token that started it is used up: rerun it without that token."
            errors.append(FieldError("", "token_ceiling_used_up", words))
        else:
            words = f"Its spend cap of {dollars(run.budget.cap)} is used up: give it a higher one."
            errors.append(FieldError("spend_cap_usd", "used_up", words))
    if errors:
        raise CapsRejected(errors)


def _queue_again(run: Run, found: dict[str, int]) -> None:
    Attempt.objects.filter(WITHOUT_VERDICT, run=run).update(
        status=Attempt.Status.QUEUED,
        verifier=Attempt.Verifier.NOT_CHECKED,
        reward=None,
        invalid_reasons=[],
        checker_error="",
        steps=0,
        started_at=None,
        ended_at=None,
        tries_allowed=F("tries") + limits.TRIES,
    )
    run.error -= found["error"]
    run.done -= found["done"]
    run.invalid -= found["invalid"]
    run.save(update_fields=["error", "done", "invalid"])
