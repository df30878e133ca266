"""An evaluation: a set of rollouts with one identity each, open until it is sealed; and the mission it is part of."""

from __future__ import annotations

import uuid
from typing import Self

from django.db import models
from django.db.models import F, Q

from console.models import Budget, User, Workspace, WorkspaceRowQuerySet
from desktops.models import State, TemplateVersion
from evaluations import limits


class Mission(models.Model):
    """What evaluations and runs roll up into."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="missions")
    slug = models.SlugField(max_length=limits.NAME_LENGTH)
    title = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "slug"], name="mission_slug_once")]
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.title or self.slug


class EvaluationQuerySet(WorkspaceRowQuerySet):
    def going(self) -> Self:
        """Those with rows that have not ended."""
        return self.exclude(status=Evaluation.Status.COMPLETE).filter(total__gt=F("done") + F("error"))


class Evaluation(models.Model):
    class Status(models.TextChoices):
        OPEN = "open", "Open"  # rollouts may be added; those there are run
        SEALED = "sealed", "Sealed"  # the set of identities is final; rows may still run
        COMPLETE = "complete", "Complete"  # sealed, and every row has ended

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="evaluations")
    name = models.CharField(max_length=limits.NAME_LENGTH, unique=True, help_text="Once on this console.")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.OPEN)
    mission = models.ForeignKey(
        Mission, null=True, blank=True, on_delete=models.SET_NULL, related_name="evaluations"
    )
    budget = models.OneToOneField(Budget, on_delete=models.PROTECT, related_name="evaluation")
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_via = models.CharField(max_length=120, blank=True)

    # total = pending + running + done + error; of those done, valid + invalid; of the valid, success + fail.
    total = models.PositiveIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    error = models.PositiveIntegerField(default=0)
    valid = models.PositiveIntegerField(default=0)
    success = models.PositiveIntegerField(default=0)
    memo_hits = models.PositiveIntegerField(default=0)
    batches_added = models.PositiveIntegerField(default=0)

    created_at = models.DateTimeField(auto_now_add=True)
    sealed_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(total__gte=F("running") + F("done") + F("error")), name="evaluation_counts_whole"
            ),
            models.CheckConstraint(
                condition=Q(done__gte=F("valid"), valid__gte=F("success")), name="evaluation_counts_of_done"
            ),
            models.CheckConstraint(
                condition=Q(status="open", sealed_at=None) | Q(sealed_at__isnull=False) & ~Q(status="open"),
                name="evaluation_sealed_has_a_moment",
            ),
        ]
        indexes = [models.Index(fields=["workspace", "-created_at", "id"], name="evaluation_newest_first")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return self.status == self.Status.OPEN

    @property
    def ended(self) -> int:
        return self.done + self.error

    @property
    def pending(self) -> int:
        return self.total - self.running - self.ended


class Batch(models.Model):
    """What was submitted or added at once: everything its rollouts have in common."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="batches")
    number = models.PositiveIntegerField()
    document = models.JSONField(help_text="As it was sent, secrets by their names.")
    kind = models.CharField(max_length=10)
    environment_digest = models.CharField(max_length=71)
    template_version = models.ForeignKey(
        TemplateVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    state = models.ForeignKey(State, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    judge = models.CharField(max_length=150)
    policy = models.CharField(max_length=200, blank=True)
    profile = models.CharField(max_length=5)
    memo = models.BooleanField()
    repro_class = models.CharField(max_length=20)
    labels = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=120, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "number"], name="batch_number_once"),
            models.CheckConstraint(
                condition=Q(profile="eval") | Q(profile="train", memo=False), name="train_is_not_remembered"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.evaluation}, batch {self.number}"
