"""A desktop came into being, got ready, went away. The ledger opens and settles with it."""

from __future__ import annotations

import logging
from datetime import datetime
from decimal import ROUND_UP, Decimal

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from console.actions.budgets import cost_of, settle
from console.models import LedgerEntry, Workspace
from desktops.handlers import BadRecord, handler_for
from desktops.models import Assignment, Computer, TemplateVersion
from desktops.protocol import attempt as protocol

from .lease import release_rest

log = logging.getLogger(__name__)


def _next_number(workspace: Workspace) -> int:
    Workspace.objects.filter(pk=workspace.pk).update(last_computer_number=F("last_computer_number") + 1)
    return Workspace.objects.values_list("last_computer_number", flat=True).get(pk=workspace.pk)


def computer_started(assignment: Assignment, record: protocol.ComputerStarted) -> Computer:
    """Open the row and its ledger entry. A start that was already recorded is returned as it is."""
    known = Computer.objects.filter(pk=record.computer).first()
    if known is not None:
        if known.assignment_id != assignment.pk:
            raise BadRecord("This computer belongs to another assignment.")
        return known
    template = assignment.payload["template"]
    # The worker's clock may run ahead; money never starts in the future.
    started_at = min(record.at, timezone.now())
    computer = Computer.objects.create(
        id=record.computer,
        workspace=assignment.workspace,
        number=_next_number(assignment.workspace),
        worker=assignment.worker,
        assignment=assignment,
        template_version=TemplateVersion.objects.get(
            template__workspace=assignment.workspace,
            template__name=template["name"],
            version=template["version"],
        ),
        purpose=assignment.kind,
        group=assignment.payload.get("run_id"),
        engine=record.engine,
        engine_ref=record.engine_ref[:100],
        image_id=record.image_id,
        worker_version=assignment.worker.version,
        started_at=started_at,
    )
    LedgerEntry.objects.create(
        workspace=assignment.workspace,
        budget=assignment.budget,
        subject=computer.pk,
        rate_usd_per_hour=assignment.rate_usd_per_hour,
        opened_at=started_at,
    )
    return computer


def computer_ready(computer: Computer, record: protocol.ComputerReady) -> None:
    computer.ready_at, computer.ready_seconds = record.at, record.seconds
    computer.save(update_fields=["ready_at", "ready_seconds"])


def computer_stopped(
    assignment: Assignment, computer: Computer, *, at: datetime, reason: str
) -> Decimal | None:
    """Settle a desktop that was seen to be gone and return its cost, of which the caller tells the handler.

    Once: a second word about it changes nothing and returns None."""
    entry = LedgerEntry.objects.select_for_update(no_key=True).get(subject=computer.pk)
    if entry.settled_at is not None:
        return None
    stopped_at = max(min(at, timezone.now()), computer.started_at)
    seconds = Decimal((stopped_at - computer.started_at).total_seconds()).quantize(
        Decimal("0.001"), rounding=ROUND_UP
    )
    cost = cost_of(seconds, entry.rate_usd_per_hour)
    if cost > assignment.reserved:
        # The worker stops a desktop before its paid time ends. Should one overstay all the same, the cap still holds
        # and the difference is ours.
        log.error("%s outlived its paid time: %s measured, %s paid", computer, cost, assignment.reserved)
        cost = assignment.reserved
    settle(assignment.budget, reserved=cost, cost=cost)
    assignment.reserved -= cost
    assignment.save(update_fields=["reserved"])
    entry.settled_at, entry.seconds, entry.cost = timezone.now(), seconds, cost
    entry.save(update_fields=["settled_at", "seconds", "cost"])
    computer.stopped_at, computer.stop_reason = stopped_at, reason[:200]
    computer.save(update_fields=["stopped_at", "stop_reason"])
    if assignment.status not in Assignment.LIVE:
        release_rest(assignment)
    return cost


def over(now: datetime) -> Q:
    """Computers that, if their worker is lost, have ended themselves by now."""
    told = Q(assignment__told_until__lt=now)
    return told | Q(assignment__told_until=None, assignment__paid_until__lt=now)


@transaction.atomic
def presume_gone(computer: Computer) -> None:
    """A lost worker's desktop: its guest agent ends it when the paid time that it knows of is over, and that is when
    its money ends. What was paid later reached nobody."""
    handler_for(computer.assignment.kind).lock(computer.assignment.subject)
    assignment = Assignment.objects.select_for_update(no_key=True).get(pk=computer.assignment_id)
    computer.refresh_from_db()
    if computer.stopped_at is None:
        reason = "its worker was lost; it ended itself"
        ended = assignment.told_until or assignment.paid_until
        cost = computer_stopped(assignment, computer, at=ended, reason=reason)
        if cost is not None:
            with handler_for(assignment.kind).batch([assignment.pk]) as batch:
                batch.computer_settled(assignment, computer, cost)
