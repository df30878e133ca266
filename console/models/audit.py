"""The audit log: what a person, a token, the operator or Deskyard itself did, never changed afterwards."""

from __future__ import annotations

from typing import Any, Literal

from django.conf import settings
from django.db import connection, models
from django.utils import timezone

from .workspace import Workspace, WorkspaceRowQuerySet

LABEL_LENGTH = SUBJECT_LENGTH = 200


class AuditEntryQuerySet(WorkspaceRowQuerySet):
    def that_occur(self, workspace: Workspace, column: Literal["action", "user_id"]) -> list[Any]:
        """Each value of the column in the workspace once, ascending. It skips through the index from value to value:
        a plain DISTINCT reads every entry there is."""
        table = f"console_auditentry WHERE workspace_id = %s AND {column}"
        statement = f"""
            WITH RECURSIVE found(value) AS (
                SELECT min({column}) FROM {table} IS NOT NULL
                UNION ALL
                SELECT (SELECT min({column}) FROM {table} > found.value) FROM found WHERE found.value IS NOT NULL
            )
            SELECT value FROM found WHERE value IS NOT NULL
        """  # noqa: S608  the column is one of two words
        with connection.cursor() as cursor:
            cursor.execute(statement, [workspace.pk, workspace.pk])
            return [value for (value,) in cursor.fetchall()]


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

    objects = AuditEntryQuerySet.as_manager()

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
            models.Index(fields=["workspace", "actor_kind", "-id"], name="audit_by_kind"),
            models.Index(fields=["workspace", "at"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.subject}"
