"""One look at one run: compare what is stored with what is wanted, and take every step that is due.

Safe to repeat and safe to kill: each look is one transaction on the run's locked row, and it starts from the database.

1. A run that is stopping ends as soon as nothing of it is left.
2. A run whose time cap, target or budget is reached is stopped.
3. A queued run becomes preparing as soon as a worker is there that can play it.
4. The next round's attempts are stored when the last ones have been handed out.
5. Queued attempts, and the prefixes that they share, are offered to workers: see runs.actions.offers.
6. Desktops are paid ahead; one that cannot be paid any longer stops by itself.
7. The status follows what the attempts are doing; when none is left the run ends.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q
from django.utils import timezone

from console.actions.budgets import BudgetExhausted, affordable, cost_of
from console.actions.tokens import name_of_ceiling
from console.actor import Actor
from desktops.actions import lease
from desktops.models import Assignment, TemplateVersion
from runs.models import Attempt, AttemptTry, Prefix, PrefixTry, Run

from . import attempts, prefixes
from .offers import able_workers, offer_queued
from .stop import begin_stop, finish_if_idle, live_assignments
from .transitions import move_run

S = Run.Status
Reason = Run.StopReason
SUPERVISOR: Final = Actor.system("the supervisor")
RETRIED_ENDED: Final = "What was tried again has ended."
# A run that had a worker and has none for this long will not get one by waiting.
NO_WORKER: Final = timedelta(seconds=settings.NO_WORKER_SECONDS)
# As many attempts as this without a verdict, and not one with, is not bad luck.
HOPELESS: Final = 6


def advance_run(run_id: uuid.UUID) -> None:
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(of=["self"], skip_locked=True, no_key=True)
            .select_related("workspace", "budget", "template_version__template")
            .filter(pk=run_id)
            .first()
        )
        if run is None or run.is_terminal:
            return  # ended, or somebody is at it: the next look will do
        if run.stop_reason:
            finish_if_idle(run, actor=SUPERVISOR)
            return
        reason, detail = due_to_stop(run)
        if reason:
            begin_stop(run, reason, actor=SUPERVISOR, detail=detail)
            return
        if run.status == S.QUEUED:
            if not able_workers(run):
                return  # nobody could play it; the time cap counts from when somebody can
            move_run(run, S.PREPARING, actor=SUPERVISOR)
            attempts.create_next_round(run)
        if prefixes.forks(run):
            prefixes.release_ended(run)
        offered = offer_queued(run)
        live = live_assignments(run)
        exhausted = offered.exhausted or pay_ahead(live)
        follow(run, live, exhausted)


def due_to_stop(run: Run) -> tuple[str, str]:
    """The reason to stop now, with a sentence, or two empty strings."""
    now = timezone.now()
    if run.status == S.QUEUED and run.template_version.status != TemplateVersion.Status.PUBLISHED:
        return Reason.CONFIG_REJECTED, f"Template {run.template_version} is not published any more."
    if run.deadline is not None and now >= run.deadline:
        return Reason.TIME_CAP_REACHED, ""
    target = run.spec["stop_after_valid"]
    if target is not None and run.valid >= target:
        return Reason.VERIFIED_TARGET_REACHED, ""
    if run.error >= HOPELESS and run.done == 0 and not cut_off_by_money(run):
        return (
            Reason.INFRASTRUCTURE_FAILURE,
            f"{run.error} attempts ended without a verdict and none with one.",
        )
    if run.status == S.RECOVERING and no_worker_since(run):
        return Reason.WORKER_LOST, "No worker came back to play on."
    return "", ""


def no_worker_since(run: Run) -> bool:
    """True when a recovering run has waited for NO_WORKER, and nobody who could play it was heard of meanwhile."""
    waits = run.events.filter(kind="run_status").order_by("seq").values_list("at", flat=True).last()
    assert waits is not None
    with_image = able_workers(
        run, connected=False, paused=True
    )  # one that was paused is there, and may go on
    seen = [worker.last_seen_at for worker in with_image if worker.last_seen_at]
    return max([waits, *seen]) < timezone.now() - NO_WORKER


def cut_off_by_money(run: Run) -> BudgetExhausted | None:
    """What is used up, if desktops of the run were stopped because nothing paid for them and nothing can now."""
    if not run.reason_tallies.filter(reason="paid_until_reached", count__gt=0).exists():
        return None
    left, tightest = affordable(run.budget)
    # A desktop is ended a little before its money is, so that a little comes back: too little for another.
    if left is None or tightest is None:
        return None
    # A worker may have a rate of its own, so by the dearest that the run was played at.
    dearest = Assignment.objects.filter(budget=run.budget_id).aggregate(rate=Max("rate_usd_per_hour"))["rate"]
    if left >= cost_of(Decimal(lease.SLICE.seconds), dearest):
        return None
    return BudgetExhausted(tightest, left)


def pay_ahead(live: list[Assignment]) -> BudgetExhausted | None:
    """Extend the paid time of the run's desktops. Returns what ran out, if something did.

    One whose worker is quiet is left as it is: nobody could be told that its desktop may exist for longer.
    """
    exhausted = None
    for assignment in live:
        if assignment.status != Assignment.Status.STOPPING and not assignment.is_quiet:
            try:
                lease.extend(assignment)
            except BudgetExhausted as error:
                exhausted = error
    return exhausted


def follow(run: Run, live: list[Assignment], exhausted: BudgetExhausted | None) -> None:
    """Let the status follow the attempts, and end the run when nothing is left to do or to pay with."""
    if run.finished == run.planned:
        exhausted = cut_off_by_money(run)
        if exhausted is None:
            begin_stop(run, Reason.ALL_TASKS_DONE, actor=SUPERVISOR)
        else:
            _stop_for_money(run, exhausted)
    elif run.reopened and not (run.running or run.verifying or run.queued):
        # What was cancelled when it first ended was not played for the reason that it ended for then.
        begin_stop(run, first_reason(run), actor=SUPERVISOR, detail=RETRIED_ENDED)
    elif exhausted is not None and not live:
        _stop_for_money(run, exhausted)
    else:
        status = _status_of(run, live)
        if status != run.status:
            move_run(run, status, actor=SUPERVISOR)


def _stop_for_money(run: Run, exhausted: BudgetExhausted) -> None:
    whole = exhausted.budget.parent_id is None
    reason = Reason.WORKSPACE_BUDGET_EXCEEDED if whole else Reason.BUDGET_EXCEEDED
    left = f"${exhausted.left:.4f} left is too little for a desktop."
    begin_stop(run, reason, actor=SUPERVISOR, detail=f"{name_of_ceiling(exhausted.budget)}{left}")


def first_reason(run: Run) -> str:
    """Why a reopened run had ended before."""
    reopened = run.events.filter(kind="run_reopened").order_by("-seq").first()
    assert reopened is not None
    return str(reopened.data["reason"])


def _status_of(run: Run, live: list[Assignment]) -> str:
    if any(assignment.is_quiet for assignment in live) or _plays_again(run):
        return S.RECOVERING
    if run.running or any(assignment.kind == "prefix" for assignment in live):
        # Preparing and recovering end when a desktop of the run has shown a good screen.
        return S.RUNNING if run.status in (S.RUNNING, S.VERIFYING) or _has_ready_desktop(run) else run.status
    if run.verifying:
        if (
            run.status == S.PREPARING
        ):  # what is verified has been played, if too briefly for anybody to see it
            return S.RUNNING
        return S.VERIFYING if run.queued == 0 else run.status
    if run.status in (S.PREPARING, S.RUNNING, S.VERIFYING) and not able_workers(run):
        return S.RECOVERING
    return run.status


def _plays_again(run: Run) -> bool:
    """Whether something whose worker was lost is on its way to a new desktop."""
    again = AttemptTry.objects.filter(
        attempt__run=run, attempt__status__in=Attempt.LIVE, number=F("attempt__tries"), number__gt=1
    ).exclude(computer__ready_at__isnull=False)
    lost = AttemptTry.objects.filter(
        attempt=OuterRef("attempt"), number=OuterRef("number") - 1, invalid_reasons__contains=["worker_lost"]
    )
    return again.filter(Exists(lost)).exists() or (prefixes.forks(run) and _prefix_plays_again(run))


def _prefix_plays_again(run: Run) -> bool:
    again = PrefixTry.objects.filter(
        prefix__run=run, prefix__status=Prefix.Status.RUNNING, number=F("prefix__tries"), number__gt=1
    ).exclude(computer__ready_at__isnull=False)
    lost = PrefixTry.objects.filter(
        prefix=OuterRef("prefix"), number=OuterRef("number") - 1, invalid_reasons__contains=["worker_lost"]
    )
    return again.filter(Exists(lost)).exists()


def _has_ready_desktop(run: Run) -> bool:
    ready = Q(computer__ready_at__isnull=False, computer__stopped_at=None)
    if Attempt.objects.filter(ready, run=run, status__in=Attempt.LIVE).exists():
        return True
    playing = Prefix.objects.filter(ready, run=run, status=Prefix.Status.RUNNING)
    return prefixes.forks(run) and playing.exists()
