"""A person. Signs in by e-mail; there is no user name."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models


class EmailUserManager(UserManager["User"]):
    def _create(self, email: str, password: str | None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:  # type: ignore[override]
        return self._create(email, password, **fields)

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:  # type: ignore[override]
        return self._create(email, password, is_staff=True, is_superuser=True, **fields)


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox's manager is untyped
    username = None  # type: ignore[assignment]
    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]
    email = models.EmailField("e-mail", unique=True)
    name = models.CharField(max_length=100, blank=True)
    run_mail = models.BooleanField(
        default=True, help_text="Mail when a run that this person started has ended, if a mail server is set."
    )
    # Where the front door leads: whoever is in several workspaces comes back to the one they were in.
    last_workspace = models.ForeignKey(
        "console.Workspace",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = EmailUserManager()  # type: ignore[misc]

    def __str__(self) -> str:
        return self.name or self.email

    @property
    def initials(self) -> str:
        words = (self.name or self.email).split()
        return "".join(word[0] for word in words[:2]).upper()

    def get_full_name(self) -> str:
        return str(self)

    def get_short_name(self) -> str:
        return str(self)
