"""A computer that somebody has opened: asked for, started on a worker, used until it is closed or a limit closes it."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import Q

from console.models import Budget, User, Workspace, WorkspaceRowQuerySet

from .assignment import Assignment
from .computer import Computer
from .state import State
from .template import TemplateVersion


class HoldQuerySet(WorkspaceRowQuerySet):
    def live(self) -> Self:
        return self.filter(status__in=Hold.LIVE)


class Hold(models.Model):
    class Status(models.TextChoices):
        WAITING = "waiting", "Waiting"  # for a worker that has what it starts from, and a free slot
        STARTING = "starting", "Starting"  # handed to a worker
        READY = "ready", "Ready"  # can be used
        CLOSING = "closing", "Closing"  # its worker is told to end it
        CLOSED = "closed", "Closed"  # for a reason that it was meant to end for
        FAILED = "failed", "Failed"  # by an infrastructure fault

    class Reason(models.TextChoices):
        CLOSED_BY_USER = "closed_by_user", "Closed by a person"
        IDLE = "idle", "Not used for too long"
        TIME_LIMIT = "time_limit", "Time limit reached"
        BUDGET_EXCEEDED = "budget_exceeded", "Spend cap reached"
        WORKSPACE_BUDGET_EXCEEDED = "workspace_budget_exceeded", "Workspace budget reached"
        CONSOLE_AWAY = "console_away", "Console away"  # nobody was there to pay its desktop ahead
        NO_WORKER = "no_worker", "No worker"
        START_FAILED = "start_failed", "Start failed"
        DESKTOP_LOST = "desktop_lost", "Desktop lost"
        WORKER_LOST = "worker_lost", "Worker lost"
        WORKER_FAULT = "worker_fault", "Worker fault"

    LIVE = (Status.WAITING, Status.STARTING, Status.READY, Status.CLOSING)
    HAS_DESKTOP = (Status.STARTING, Status.READY)
    MEANT = (
        Reason.CLOSED_BY_USER,
        Reason.IDLE,
        Reason.TIME_LIMIT,
        Reason.BUDGET_EXCEEDED,
        Reason.WORKSPACE_BUDGET_EXCEEDED,
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="holds")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.WAITING)
    template_version = models.ForeignKey(TemplateVersion, on_delete=models.PROTECT, related_name="+")
    state = models.ForeignKey(
        State,
        on_delete=models.PROTECT,
        related_name="holds",
        null=True,
        blank=True,
        help_text="The saved desktop that it starts from.",
    )
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="+")
    idle_minutes = models.PositiveSmallIntegerField(help_text="Closed when nobody has used it for so long.")
    max_minutes = models.PositiveSmallIntegerField(
        help_text="Closed so long after it was handed to a worker."
    )
    assignment = models.OneToOneField(
        Assignment, on_delete=models.PROTECT, related_name="hold", null=True, blank=True
    )
    computer = models.OneToOneField(
        Computer, on_delete=models.PROTECT, related_name="hold", null=True, blank=True
    )
    opened_by = models.ForeignKey(User, on_delete=models.SET_NULL, related_name="+", null=True, blank=True)
    opened_via = models.CharField(max_length=120)
    stop_reason = models.CharField(max_length=25, choices=Reason.choices, blank=True)
    detail = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True, help_text="When it was handed to a worker.")
    last_used_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = HoldQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["closed", "failed"], ended_at__isnull=False) & ~Q(stop_reason="")
                | ~Q(status__in=["closed", "failed"]) & Q(ended_at=None),
                name="hold_ends_for_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(idle_minutes__gte=1) & Q(max_minutes__gte=1), name="hold_has_limits"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-created_at", "id"], name="hold_newest_first"),
            models.Index(
                fields=["created_at"],
                condition=Q(status__in=["waiting", "starting", "ready", "closing"]),
                name="hold_live",
            ),
        ]

    def __str__(self) -> str:
        return self.computer.label if self.computer else f"computer on {self.template_version}"

    @property
    def is_live(self) -> bool:
        return self.status in self.LIVE

    @property
    def label(self) -> str | None:
        return self.computer.label if self.computer else None

    @property
    def closes_at(self) -> datetime | None:
        """Derived: the hard limit; None while it waits for a worker."""
        return self.started_at + timedelta(minutes=self.max_minutes) if self.started_at else None

    @property
    def idle_at(self) -> datetime | None:
        """Derived: when it closes unless somebody uses it before; None while it cannot be used."""
        if self.status != self.Status.READY or self.last_used_at is None:
            return None
        return self.last_used_at + timedelta(minutes=self.idle_minutes)
