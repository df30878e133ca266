"""The tenant. Every row of the product belongs to one, and every query starts from it."""

from __future__ import annotations

from typing import Self

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from .user import User

slug_validator = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$", "Lower-case letters, digits and hyphens."
)


class WorkspaceQuerySet(models.QuerySet["Workspace"]):
    def of(self, user: User) -> Self:
        return self.filter(memberships__user=user)


class Workspace(models.Model):  # type: ignore[django-manager-missing]  # as above
    slug = models.CharField(max_length=50, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=100)
    run_parallelism = models.PositiveSmallIntegerField(
        default=8,
        validators=[MinValueValidator(1), MaxValueValidator(64)],
        help_text="Desktops one run may hold at once.",
    )
    last_run_number = models.PositiveIntegerField(default=0, editable=False)
    last_computer_number = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class WorkspaceRowQuerySet(models.QuerySet):  # type: ignore[type-arg]
    """Base of every list in the product: start from the workspace."""

    def for_workspace(self, workspace: Workspace) -> Self:
        return self.filter(workspace=workspace)


class Membership(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner", "Owner"  # everything, and handing out ownership
        ADMIN = "admin", "Admin"  # members, tokens, budget, workers, any run
        MEMBER = "member", "Member"  # see everything, make runs, cancel own ones

    MANAGERS = (Role.OWNER, Role.ADMIN)

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    joined_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "admin", "member"]), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.workspace} ({self.role})"

    @property
    def manages(self) -> bool:
        return self.role in self.MANAGERS
