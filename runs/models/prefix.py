"""Prefixes: what the attempts of one task, copy and round share, played once on a desktop of its own, then saved."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce

from console.models import LedgerEntry, Workspace, WorkspaceRowQuerySet
from desktops.models import Assignment, Computer, State, Worker
from runs import limits

from .run import Run
from .task import Task


class PrefixQuerySet(WorkspaceRowQuerySet):
    def open(self) -> Self:
        return self.filter(status__in=Prefix.OPEN)

    def with_cost(self) -> Self:
        """`cost`: of its desktops that are gone, of all its tries, in dollars."""
        desktops = PrefixTry.objects.filter(prefix=OuterRef(OuterRef("pk"))).values("computer")
        paid = LedgerEntry.objects.filter(subject__in=desktops).order_by().values("budget")
        spent = Subquery(paid.annotate(total=Sum("cost")).values("total"))
        return self.annotate(cost=Coalesce(spent, Decimal(0)))


class Prefix(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        SAVED = "saved", "Saved"  # its desktop is kept on a worker; forks start from it
        DONE = "done", "Done"  # it was saved, and all its forks have ended
        ERROR = "error", "Error"  # it could not be saved: each of its attempts plays it again
        CANCELLED = "cancelled", "Cancelled"

    OPEN = (Status.QUEUED, Status.RUNNING, Status.SAVED)
    TERMINAL = (Status.DONE, Status.ERROR, Status.CANCELLED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="prefixes", db_index=False
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="prefixes", db_index=False)
    number = models.PositiveIntegerField(help_text="Of its group of attempts: 1 …, in the order of play.")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    round = models.PositiveSmallIntegerField()
    copy = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.QUEUED)
    steps = models.PositiveSmallIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    state = models.ForeignKey(State, null=True, on_delete=models.SET_NULL, related_name="prefixes")
    state_digest = models.CharField(max_length=71, blank=True)
    screenshot = models.CharField(max_length=64, blank=True, help_text="What its forks part from.")
    computer = models.ForeignKey(Computer, null=True, on_delete=models.PROTECT, related_name="prefixes")
    worker = models.ForeignKey(Worker, null=True, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it was saved, or given up.")

    objects = PrefixQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="prefix_number_once"),
            models.CheckConstraint(
                condition=~Q(status__in=["saved", "done"]) | Q(state_digest__startswith="sha256:"),
                name="prefix_saved_has_digest",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "running"], ended_at=None)
                | ~Q(status__in=["queued", "running"]) & Q(ended_at__isnull=False),
                name="prefix_ended_has_time",
            ),
            models.CheckConstraint(condition=Q(tries__lte=limits.TRIES), name="prefix_tries_bounded"),
        ]
        indexes = [
            models.Index(
                fields=["run", "number"],
                condition=Q(status__in=["queued", "running", "saved"]),
                name="prefix_open",
            ),
        ]
        ordering = ["number"]
        verbose_name_plural = "prefixes"

    def __str__(self) -> str:
        return f"Prefix {self.number} of {self.run}"


class PrefixTry(models.Model):
    """One go at a prefix on one worker."""

    prefix = models.ForeignKey(Prefix, on_delete=models.CASCADE, related_name="try_rows", db_index=False)
    number = models.PositiveSmallIntegerField()
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="prefix_try")
    computer = models.ForeignKey(Computer, null=True, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField(auto_now_add=True)
    setup_seconds = models.FloatField(null=True, blank=True)
    setup_screenshot = models.CharField(max_length=64, blank=True)
    from_state = models.CharField(max_length=120, blank=True, help_text="Name of the state it started from.")
    from_digest = models.CharField(max_length=71, blank=True, help_text="Of that state.")
    ended_at = models.DateTimeField(null=True, blank=True)
    ok = models.BooleanField(null=True, help_text="None while it goes on.")
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    detail = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["prefix", "number"], name="prefix_try_number_once")]
        ordering = ["number"]
        verbose_name_plural = "prefix tries"

    def __str__(self) -> str:
        return f"Try {self.number} of {self.prefix}"
