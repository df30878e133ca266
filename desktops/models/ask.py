"""Something that the worker of an open computer is asked to do with it, and its answer."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from .hold import Hold
from .state import State
from .template import TemplateVersion


class Ask(models.Model):
    class What(models.TextChoices):
        SAVE = "save", "Save"
        MAKE_IMAGE = "make_image", "Save as a template version"

    class Status(models.TextChoices):
        ASKED = "asked", "Being done"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    hold = models.ForeignKey(Hold, on_delete=models.CASCADE, related_name="asks")
    what = models.CharField(max_length=10, choices=What.choices)
    status = models.CharField(max_length=6, choices=Status.choices, default=Status.ASKED)
    label = models.CharField(max_length=200, blank=True, help_text="Of what is saved: what a person reads.")
    keep_days = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Of what is saved: so long since its last use."
    )
    state = models.ForeignKey(
        State, on_delete=models.SET_NULL, related_name="+", null=True, blank=True, help_text="What was saved."
    )
    template_version = models.ForeignKey(
        TemplateVersion,
        on_delete=models.SET_NULL,
        related_name="asks",
        null=True,
        blank=True,
        help_text="The draft that its image is for.",
    )
    asked_by = models.CharField(max_length=120)
    error = models.TextField(blank=True)
    asked_at = models.DateTimeField(auto_now_add=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status="asked", answered_at=None)
                | ~Q(status="asked") & Q(answered_at__isnull=False),
                name="ask_answered_once",
            ),
            models.CheckConstraint(
                condition=Q(status="failed") | Q(error=""), name="ask_failed_for_a_reason"
            ),
        ]
        indexes = [models.Index(fields=["hold"], condition=Q(status="asked"), name="ask_open")]
        ordering = ["-asked_at"]

    def __str__(self) -> str:
        return f"{self.get_what_display()} ({self.get_status_display().lower()})"

    @property
    def state_name(self) -> str:
        """The worker's name for what it shall save."""
        return f"saved-{self.pk}"
