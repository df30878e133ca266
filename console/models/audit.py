"""The audit log: what a person, a token, the operator or Deskyard itself did, never changed afterwards."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from .workspace import Workspace, WorkspaceRowQuerySet

LABEL_LENGTH = SUBJECT_LENGTH = 200


class AuditEntry(models.Model):
    """The database refuses to change or delete one. `workspace` None: a matter of the whole console."""

    class ActorKind(models.TextChoices):
        USER = "user", "Person"
        TOKEN = "token", "Token"
        OPERATOR = "operator", "Operator"
        SYSTEM = "system", "Deskyard"
        NOBODY = "nobody", "Not signed in"

    workspace = models.ForeignKey(
        Workspace, null=True, blank=True, on_delete=models.PROTECT, related_name="audit_entries"
    )
    at = models.DateTimeField(default=timezone.now)
    actor_kind = models.CharField(max_length=10, choices=ActorKind.choices)
    actor_label = models.CharField(max_length=LABEL_LENGTH)
    # The name stays when the account goes.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    action = models.CharField(max_length=60, help_text="Dotted: what, then what happened to it.")
    subject = models.CharField(max_length=SUBJECT_LENGTH, help_text="A short human name.")
    detail = models.JSONField(default=dict, blank=True)
    via = models.CharField(max_length=20, blank=True, help_text="page, API, admin; empty: a command.")
    ip = models.GenericIPAddressField(null=True, blank=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "audit entries"
        ordering = ["-pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(actor_kind__in=["user", "token", "operator", "system", "nobody"]),
                name="audit_actor_known",
            )
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="audit_newest"),
            models.Index(fields=["workspace", "action", "-id"], name="audit_by_action"),
            models.Index(fields=["workspace", "user", "-id"], name="audit_by_user"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"
