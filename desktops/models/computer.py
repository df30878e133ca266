"""One live desktop on a worker, from the moment it exists until it was seen to be gone."""

from __future__ import annotations

import uuid
from typing import Self

from django.db import models
from django.db.models import Q

from console.models import Workspace, WorkspaceRowQuerySet

from .assignment import Assignment
from .template import TemplateVersion
from .worker import Worker


class ComputerQuerySet(WorkspaceRowQuerySet):
    def held(self) -> Self:
        return self.filter(stopped_at=None)


class Computer(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="computers")
    number = models.PositiveIntegerField(help_text="Shown as c-0001; per workspace.")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="computers")
    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="computers")
    template_version = models.ForeignKey(TemplateVersion, on_delete=models.PROTECT, related_name="+")
    purpose = models.CharField(max_length=20, help_text="The assignment's kind.")
    group = models.UUIDField(null=True, blank=True, help_text="What it is shown under: the run's id, …")
    engine = models.CharField(max_length=20)
    engine_ref = models.CharField(max_length=100, blank=True)
    image_id = models.CharField(
        max_length=71, blank=True, help_text="Of the very image it was made of: sha256:…"
    )
    worker_version = models.CharField(max_length=50, blank=True, help_text="The worker's when it started it.")
    started_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True, blank=True)
    ready_seconds = models.FloatField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)
    stop_reason = models.CharField(max_length=200, blank=True)
    last_screenshot = models.CharField(max_length=64, blank=True)

    objects = ComputerQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "number"], name="computer_number_once"),
            models.CheckConstraint(
                condition=Q(stopped_at=None) | Q(stopped_at__gte=models.F("started_at")),
                name="computer_stops_after_start",
            ),
        ]
        indexes = [
            models.Index(fields=["group", "number"]),
            models.Index(fields=["worker"], condition=Q(stopped_at=None), name="computer_held"),
            models.Index(fields=["group"], condition=Q(stopped_at=None), name="computer_group_held"),
            models.Index(fields=["group", "worker", "number"], name="computer_group_worker"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"c-{self.number:04d}"
