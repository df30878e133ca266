"""Live views: a ticket for one socket of one person, its use, and whether the view may go on."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from console.actions.audit import record
from console.actor import Actor
from console.doorbell import ring
from console.models import Membership, Token, User
from desktops.models import Computer, Hold, LiveView, Worker
from desktops.models.view import LiveViewQuerySet

TICKET: Final = timedelta(seconds=30)  # from the page that has it to the socket that uses it
ALIVE: Final = timedelta(seconds=15)
KEPT: Final = timedelta(days=1)  # the audit log has who watched what for longer


class NotLive(Exception):
    """The desktop has ended; there is nothing to see."""


@transaction.atomic
def let_watch(computer: Computer, *, drives: bool = False, by_role: bool = False, actor: Actor) -> str:
    """A ticket for the actor's browser, good for one socket and for a moment. The caller has asked who may, and says
    whether it is by their role that they may."""
    assert actor.user is not None
    if computer.stopped_at is not None:
        raise NotLive(f"The desktop {computer.label} has ended.")
    if Hold.objects.filter(computer=computer).exclude(status__in=Hold.HAS_DESKTOP).exists():
        raise NotLive(f"The computer {computer.label} is closed: its desktop is being removed.")
    now = timezone.now()
    LiveView.objects.for_workspace(computer.workspace).filter(made_at__lt=now - KEPT).delete()
    secret = secrets.token_urlsafe(32)
    LiveView.objects.create(
        workspace=computer.workspace,
        computer=computer,
        user=actor.user,
        drives=drives,
        by_role=by_role,
        ticket=_digest(secret),
        expires_at=now + TICKET,
    )
    record(
        workspace=computer.workspace,
        actor=actor,
        action="computer.taken_over" if drives else "computer.watched",
        subject=f"computer {computer.label}",
    )
    return secret


@transaction.atomic
def open_view(secret: str, user: User) -> LiveView | None:
    """Use the ticket up. None when it is another's, was used, is too old, or there is nothing to see any longer."""
    view = _allowed(LiveView.objects.filter(ticket=_digest(secret), user=user)).first()
    now = timezone.now()
    used = view is not None and LiveView.objects.filter(
        pk=view.pk, opened_at=None, expires_at__gt=now
    ).update(opened_at=now, alive_until=now + ALIVE)
    if not used or view is None:
        return None
    ring(f"worker.{view.computer.worker_id}")
    return view


def go_on(view: LiveView) -> bool:
    """Whether its person may still see the desktop, and there still is one. Said every few seconds, it is alive."""
    if not _allowed(LiveView.objects.filter(pk=view.pk)).exists():
        return False
    alive_until = timezone.now() + ALIVE
    return bool(LiveView.objects.filter(pk=view.pk, ended_at=None).update(alive_until=alive_until))


def end_view(view: LiveView) -> None:
    LiveView.objects.filter(pk=view.pk, ended_at=None).update(ended_at=timezone.now())


def wanted_of(worker: Worker) -> list[LiveView]:
    """What the worker is to dial a tunnel for, if it has not yet."""
    open_views = LiveView.objects.open().filter(computer__worker=worker, computer__stopped_at=None)
    return list(
        open_views.select_related("user", "computer__assignment").defer("computer__assignment__payload")
    )


def is_open(view: uuid.UUID, token: Token) -> bool:
    """Whether that is a view of a desktop of the token's workspace."""
    return LiveView.objects.open().filter(pk=view, workspace=token.workspace_id).exists()


def _allowed(views: LiveViewQuerySet) -> LiveViewQuerySet:
    return views.filter(
        Q(by_role=False) | Q(workspace__memberships__role__in=Membership.MANAGERS),
        computer__stopped_at=None,
        user__is_active=True,
        workspace__memberships__user=F("user"),
    ).select_related("computer")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
