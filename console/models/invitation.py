"""An invitation into a workspace: a link with a secret, of which only a digest is kept; one use, seven days."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone

from .workspace import Membership, Workspace, WorkspaceRowQuerySet

LIFETIME = timedelta(days=7)


class InvitationQuerySet(WorkspaceRowQuerySet):
    def pending(self) -> Self:
        """Neither used nor revoked. Expired ones are among them: they can be renewed."""
        return self.filter(accepted_at=None, revoked_at=None)


class Invitation(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField("e-mail")
    role = models.CharField(max_length=10, choices=Membership.Role.choices, default=Membership.Role.MEMBER)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    # None: the platform. An invitation reaches no further than the role of whoever made it does at the moment of use.
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                "workspace",
                Lower("email"),
                condition=Q(accepted_at=None, revoked_at=None),
                name="invitation_pending_once",
            ),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "admin", "member"]), name="invitation_role_known"
            ),
            models.CheckConstraint(
                condition=Q(accepted_at=None) | Q(revoked_at=None), name="invitation_ends_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} into {self.workspace} ({self.role})"

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()

    @property
    def is_live(self) -> bool:
        return self.accepted_at is None and self.revoked_at is None and not self.is_expired
