"""A worker host: the process that owns desktops on one machine. It dials in; nothing listens there."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Self

from django.db import models
from django.utils import timezone

from console.models import Workspace, WorkspaceRowQuerySet
from desktops.protocol.messages import LEASE_SECONDS


class WorkerQuerySet(WorkspaceRowQuerySet):
    def connected(self) -> Self:
        return self.filter(connected=True, last_seen_at__gt=timezone.now() - timedelta(seconds=LEASE_SECONDS))

    def listed(self) -> Self:
        """Without those that were removed."""
        return self.filter(removed_at=None)


class Worker(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="workers")
    name = models.CharField(max_length=100)
    instance = models.UUIDField(null=True, blank=True, help_text="The spool it reports from.")
    applied = models.PositiveBigIntegerField(
        default=0, help_text="Highest spool number stored of that instance."
    )
    version = models.CharField(max_length=50, blank=True)
    engine = models.CharField(max_length=20, blank=True)
    engine_version = models.CharField(max_length=50, blank=True)
    isolation = models.CharField(max_length=500, blank=True)
    can_fork = models.BooleanField(default=False)
    cannot_fork_because = models.CharField(max_length=500, blank=True)
    slots = models.PositiveSmallIntegerField(default=1)
    cpus = models.PositiveSmallIntegerField(default=0)
    memory_mb = models.PositiveIntegerField(default=0)
    disk_free_mb = models.PositiveIntegerField(default=0)
    states_limit_mb = models.PositiveIntegerField(
        default=0, help_text="Of disk, for all saved desktops together; 0: not said."
    )
    states_bytes = models.PositiveBigIntegerField(default=0, help_text="Of disk that saved desktops take.")
    ready_desktops = models.PositiveSmallIntegerField(
        default=0, help_text="Standing ready for who asks next, and billed to nobody until then."
    )
    images = models.JSONField(default=list, help_text="Template images on the host: name, version, digest.")
    connection = models.UUIDField(
        null=True, blank=True, help_text="The socket that speaks for it; the newest wins."
    )
    connected = models.BooleanField(default=False)
    paused = models.BooleanField(default=False, help_text="Takes no new work; what plays is finished.")
    last_seen_at = models.DateTimeField(null=True, blank=True)
    left_at = models.DateTimeField(null=True, blank=True, help_text="It said that it stops.")
    removed_at = models.DateTimeField(
        null=True, blank=True, help_text="It is listed no longer; connecting again brings it back."
    )
    swept_at = models.DateTimeField(null=True, blank=True)
    swept_left = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="worker_name_once")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_connected(self) -> bool:
        """Derived: a worker that has gone quiet for a lease is not connected, whatever the socket says."""
        return bool(
            self.connected
            and self.last_seen_at
            and self.last_seen_at > timezone.now() - timedelta(seconds=LEASE_SECONDS)
        )

    def has_image(self, name: str, digest: str) -> bool:
        """The digest is the pin; the version number is for people."""
        return any((image["name"], image["digest"]) == (name, digest) for image in self.images)
