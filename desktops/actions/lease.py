"""Offer, extend, stop, lose: the life of an assignment, one verb each.

The money for a desktop's time is held before the time is granted: `paid_until` never lies beyond what is reserved.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from console.actions.budgets import BudgetExhausted, affordable, cost_of, reserve, seconds_for
from console.doorbell import ring
from console.models import Budget
from desktops.handlers import handler_for
from desktops.models import Assignment, Worker
from desktops.protocol.messages import LEASE_SECONDS

from .books import keep_books

# Budget is held this far ahead. Short enough that little money is tied up, long enough that a console may be away
# for a while without a desktop being stopped for it.
SLICE = timedelta(seconds=60)
# Paid ahead again as soon as less than this is left: a console may be away for as long without a desktop being stopped.
AHEAD = timedelta(seconds=45)
# Nothing is started for less: a desktop that cannot live this long only burns the rest of the budget.
SHORTEST = timedelta(seconds=15)


def _hold(budget: Budget, rate: Decimal, wanted: timedelta) -> tuple[timedelta, Decimal]:
    """Reserve up to `wanted`; what there is if less is left. Raises BudgetExhausted when not even a second is."""
    left, tightest = affordable(budget)
    seconds = int(wanted.total_seconds())
    if left is not None and tightest is not None:
        seconds = min(seconds, seconds_for(left, rate))
        if seconds < 1:
            raise BudgetExhausted(tightest, left)
    amount = cost_of(Decimal(seconds), rate)
    if left is not None:
        amount = min(amount, left)
    reserve(budget, amount)
    return timedelta(seconds=seconds), amount


@transaction.atomic
def offer(
    *,
    worker: Worker,
    kind: str,
    subject: uuid.UUID,
    epoch: int,
    payload: dict[str, Any],
    budget: Budget,
    rate_usd_per_hour: Decimal,
) -> Assignment:
    """Hand work to a worker, with its first slice of paid time. Raises BudgetExhausted, and then nothing happened."""
    now = timezone.now()
    left, tightest = affordable(budget)
    if (
        left is not None
        and tightest is not None
        and left < cost_of(Decimal(SHORTEST.seconds), rate_usd_per_hour)
    ):
        raise BudgetExhausted(tightest, left)
    granted, amount = _hold(budget, rate_usd_per_hour, SLICE)
    assignment = Assignment.objects.create(
        workspace=worker.workspace,
        worker=worker,
        budget=budget,
        kind=kind,
        subject=subject,
        epoch=epoch,
        payload=payload,
        rate_usd_per_hour=rate_usd_per_hour,
        reserved=amount,
        paid_until=now + granted,
        told_until=now + granted,
        lease_until=now + timedelta(seconds=LEASE_SECONDS),
    )
    ring(f"worker.{worker.pk}")
    return assignment


def extend(assignment: Assignment) -> Assignment:
    """Pay a live assignment's desktop ahead to a whole slice when less than AHEAD is left of it.

    Raises BudgetExhausted; the desktop then stops by itself at `paid_until`. The caller holds the row's lock.
    """
    now = timezone.now()
    if assignment.paid_until - now > AHEAD:
        return assignment
    paid = max(assignment.paid_until, now)
    with transaction.atomic():
        granted, amount = _hold(assignment.budget, assignment.rate_usd_per_hour, now + SLICE - paid)
        assignment.paid_until = paid + granted
        assignment.reserved += amount
        assignment.save(update_fields=["paid_until", "reserved"])
        ring(f"worker.{assignment.worker_id}")
    return assignment


@transaction.atomic
def stop(assignment: Assignment, *, reason: str) -> None:
    """Tell the worker to end it; it goes on until its last record is stored. Telling twice changes nothing."""
    told = Assignment.objects.filter(
        pk=assignment.pk, status__in=[Assignment.Status.OFFERED, Assignment.Status.HELD]
    ).update(status=Assignment.Status.STOPPING, stop_reason=reason)
    if told:
        assignment.status, assignment.stop_reason = Assignment.Status.STOPPING, reason
        ring(f"worker.{assignment.worker_id}")


def grace() -> None:
    """Give every lease its full length again: nobody looked after them for a while, which is no worker's fault."""
    until = timezone.now() + timedelta(seconds=LEASE_SECONDS)
    Assignment.objects.live().filter(lease_until__lt=until).update(lease_until=until)


def may_return(assignment: Assignment) -> bool:
    """Whether a quiet worker's work is better left to it: it plays on without us, and may bring its verdict yet.

    Only as long as its desktop is paid for, it was not told to stop, its worker has not come back without it, and
    nobody else is free to begin it anew. One that was not taken yet stays offered to a worker that is heard: on a busy
    machine it takes its time.
    """
    if assignment.status == Assignment.Status.STOPPING or assignment.paid_until < timezone.now():
        return False
    if assignment.status == Assignment.Status.OFFERED:
        return assignment.worker.is_connected
    heard = assignment.worker.last_seen_at
    came_back = heard is not None and heard > assignment.lease_until
    anew = handler_for(assignment.kind).begins_anew and _somebody_else(assignment)
    return not came_back and not anew


def _somebody_else(assignment: Assignment) -> bool:
    others = Worker.objects.filter(workspace=assignment.workspace_id, paused=False).connected()
    held = Count("assignments", filter=Q(assignments__status__in=Assignment.LIVE))
    pin = assignment.payload["template"]
    return any(
        worker.has_image(pin["name"], pin["digest"])
        for worker in others.exclude(pk=assignment.worker_id).annotate(held=held).filter(held__lt=F("slots"))
    )


@transaction.atomic
def lose(assignment: Assignment) -> bool:
    """The lease ran out without a word. False when somebody was faster."""
    handler_for(assignment.kind).lock(assignment.subject)
    row = Assignment.objects.select_for_update(no_key=True).get(pk=assignment.pk)
    if row.status not in Assignment.LIVE or row.lease_until > timezone.now():
        return False
    with handler_for(row.kind).batch([row.pk]) as batch, keep_books([row]) as books:
        books.end(row, status=Assignment.Status.LOST, at=timezone.now())
        batch.lost(row)
    ring(f"worker.{row.worker_id}")
    return True
