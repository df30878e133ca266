"""Whatever a worker is asked to do. Held by a lease with a monotonic epoch; every write names its epoch."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from console.models import Budget, Workspace, WorkspaceRowQuerySet
from console.models.budget import money_field

from .worker import Worker


class AssignmentQuerySet(WorkspaceRowQuerySet):
    def live(self) -> Self:
        return self.filter(status__in=Assignment.LIVE)


class Assignment(models.Model):
    class Status(models.TextChoices):
        OFFERED = "offered", "Offered"  # sent, not yet named by a heartbeat
        HELD = "held", "Held"  # the worker's heartbeats name it
        STOPPING = "stopping", "Stopping"  # told to end, its last record is awaited
        ENDED = "ended", "Ended"  # its last record is stored
        LOST = "lost", "Lost"  # the lease ran out; late writes are refused by epoch

    LIVE = (Status.OFFERED, Status.HELD, Status.STOPPING)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="assignments")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="assignments")
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=20, help_text="Names the handler: attempt, …")
    subject = models.UUIDField(help_text="What it is for: the attempt's id, …")
    payload = models.JSONField()
    epoch = models.PositiveIntegerField(default=1)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OFFERED)
    stop_reason = models.CharField(max_length=100, blank=True)
    lease_until = models.DateTimeField()
    paid_until = models.DateTimeField()
    told_until = models.DateTimeField(
        null=True, blank=True, help_text="The paid_until that its worker was last known to go by."
    )
    rate_usd_per_hour = money_field()
    reserved = money_field(
        default=Decimal(0), help_text="Held in the budgets for desktops of this assignment."
    )
    offered_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = AssignmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(reserved__gte=0), name="assignment_reserved_not_negative"),
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=Q(status__in=["offered", "held", "stopping"]),
                name="assignment_one_live_per_subject",
            ),
        ]
        indexes = [
            models.Index(fields=["worker", "status"]),
            models.Index(fields=["kind", "subject"]),
            models.Index(
                fields=["lease_until"],
                condition=Q(status__in=["offered", "held", "stopping"]),
                name="assignment_leases",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} on {self.worker} (epoch {self.epoch}, {self.status})"

    @property
    def is_quiet(self) -> bool:
        """Derived: its lease has run out, and nobody has called it lost."""
        return self.status in self.LIVE and self.lease_until < timezone.now()
