"""API tokens: `dy_…`, stored as a digest, shown once, bound to one workspace and to named scopes."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone
from knox.models import AbstractAuthToken, AuthTokenManager

from .budget import Budget
from .workspace import Workspace, WorkspaceRowQuerySet


class Scope(models.TextChoices):
    RUNS_READ = "runs:read", "Read runs, attempts, events, task sets, templates and workers"
    RUNS_WRITE = "runs:write", "Create and cancel runs"
    EVALUATIONS_READ = "evaluations:read", "Read evaluations"
    EVALUATIONS_WRITE = "evaluations:write", "Submit, add to and seal evaluations"
    COMPUTERS_READ = "computers:read", "See computers"
    COMPUTERS_WRITE = "computers:write", "Start and drive computers"
    WORKERS_CONNECT = "workers:connect", "Connect a worker host, and nothing else"


class Token(AbstractAuthToken):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    scopes = ArrayField(models.CharField(max_length=30, choices=Scope.choices), size=len(Scope))
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Its spend ceiling, under the workspace's budget: what it starts is paid from there. None: no ceiling of its own.
    budget = models.OneToOneField(
        Budget, null=True, blank=True, editable=False, on_delete=models.PROTECT, related_name="token"
    )

    objects = AuthTokenManager.from_queryset(WorkspaceRowQuerySet)()

    class Meta:
        ordering = ["-created"]
        constraints = [
            models.CheckConstraint(condition=models.Q(scopes__len__gt=0), name="token_has_a_scope"),
            models.UniqueConstraint(
                fields=["workspace", "name"], condition=models.Q(revoked_at=None), name="token_name_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.token_key}…)"

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and (self.expiry is None or self.expiry > timezone.now())
