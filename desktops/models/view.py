"""A live view: one person's look at one desktop, or their hand on it, from its ticket to its end."""

from __future__ import annotations

import uuid
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from console.models import Workspace, WorkspaceRowQuerySet

from .computer import Computer


class LiveViewQuerySet(WorkspaceRowQuerySet):
    def open(self) -> Self:
        """Somebody watches. The console process that has their socket says so again and again."""
        return self.filter(opened_at__isnull=False, ended_at=None, alive_until__gt=timezone.now())


class LiveView(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    computer = models.ForeignKey(Computer, on_delete=models.CASCADE, related_name="views", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    drives = models.BooleanField(default=False, help_text="Has taken the desktop over.")
    by_role = models.BooleanField(
        default=False, help_text="Drives another's desktop, as an admin or owner, and while they are one."
    )
    ticket = models.CharField(max_length=64, unique=True, editable=False, help_text="Digest of the secret.")
    made_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(help_text="Of the ticket.")
    opened_at = models.DateTimeField(null=True, blank=True, help_text="The ticket was used then.")
    alive_until = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = LiveViewQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(opened_at=None) | Q(alive_until__isnull=False), name="view_open_is_alive"
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None) | Q(opened_at__isnull=False), name="view_ends_after_opening"
            ),
        ]
        indexes = [
            models.Index(
                fields=["computer"], condition=Q(opened_at__isnull=False, ended_at=None), name="view_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} on {self.computer}"
