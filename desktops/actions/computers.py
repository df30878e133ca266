"""Desktops whose worker was lost: what is known of them without it."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from desktops.handlers import handler_for
from desktops.models import Assignment, Computer

from .books import keep_books


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
    with handler_for(assignment.kind).batch([assignment.pk]) as batch, keep_books([assignment]) as books:
        row = books.computers[computer.pk]
        ended = assignment.told_until or assignment.paid_until
        cost = books.stopped(assignment, row, at=ended, reason="its worker was lost; it ended itself")
        if cost is not None:
            batch.computer_settled(assignment, row, cost)
