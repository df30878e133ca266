"""Replies kept under a client's Idempotency-Key, so that a repeated request gets the first reply again."""

from __future__ import annotations

from django.db import models

from .user import User
from .workspace import Workspace, WorkspaceRowQuerySet


class IdempotentReply(models.Model):
    """Written in the transaction of what the request did: there is a row exactly when there is the deed."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    body = models.JSONField(default=dict)
    location = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "idempotent replies"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user", "key"], name="idempotency_key_once")
        ]
        indexes = [models.Index(fields=["created_at"], name="idempotency_age")]

    def __str__(self) -> str:
        return self.key
