"""A saved live desktop on a worker: processes, memory and files. Desktops start from it; it never changes."""

from __future__ import annotations

import uuid
from typing import Self

from django.db import models
from django.utils import timezone

from console.models import Workspace, WorkspaceRowQuerySet

from .computer import Computer
from .template import TemplateVersion
from .worker import Worker


class StateQuerySet(WorkspaceRowQuerySet):
    def held(self) -> Self:
        return self.filter(status=State.Status.HELD)

    def present(self) -> Self:
        """Those that take up a worker's disk, as far as is known."""
        return self.exclude(status=State.Status.GONE)


class State(models.Model):
    class Origin(models.TextChoices):
        WARM = "warm", "Ready desktop"  # of an image, before anything was done on it
        SETUP = "setup", "After setup"  # of a task
        PREFIX = "prefix", "Shared prefix"  # what the forks of a run start from
        SAVED = "saved", "Saved"  # by a person

    class Status(models.TextChoices):
        HELD = "held", "Kept"  # the worker has it
        LEAVING = "leaving", "Being deleted"  # nobody wants it; the worker is told until it is gone
        GONE = "gone", "Gone"  # the worker has it no longer

    # The worker makes room among these by itself and makes them again; the others leave on the console's word only.
    REMADE = (Origin.WARM, Origin.SETUP)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="states")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="states")
    name = models.CharField(max_length=120, help_text="The worker's name for it: warm-…, setup-…, …")
    origin = models.CharField(max_length=6, choices=Origin.choices)
    status = models.CharField(max_length=7, choices=Status.choices, default=Status.HELD)
    digest = models.CharField(
        max_length=71, blank=True, help_text="Of its processes and what it had written."
    )
    size_bytes = models.PositiveBigIntegerField(default=0)
    template_version = models.ForeignKey(
        TemplateVersion, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, related_name="children", null=True, blank=True
    )
    computer = models.ForeignKey(
        Computer,
        on_delete=models.SET_NULL,
        related_name="states",
        null=True,
        blank=True,
        help_text="The desktop it was saved from.",
    )
    label = models.CharField(max_length=200, blank=True, help_text="What a person reads.")
    screenshot = models.CharField(max_length=64, blank=True)
    attestation = models.JSONField(null=True, blank=True, help_text="What its forks are compared with.")
    made_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    keep_days = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="It expires so long after its last use; empty: not by use."
    )
    uses = models.PositiveIntegerField(default=0, help_text="Desktops started from it.")

    objects = StateQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["worker", "name"], name="state_name_once")]
        indexes = [
            models.Index(fields=["workspace", "-made_at", "id"], name="state_newest_first"),
            models.Index(fields=["worker"], condition=models.Q(status="leaving"), name="state_leaving"),
            models.Index(fields=["expires_at"], condition=models.Q(status="held"), name="state_expiring"),
        ]

    def __str__(self) -> str:
        return self.label or f"Saved on {self.made_at:%-d %b at %H:%M}"

    @property
    def is_due(self) -> bool:
        """Its time is over: it goes as soon as nothing needs it."""
        return self.expires_at is not None and self.expires_at <= timezone.now()
