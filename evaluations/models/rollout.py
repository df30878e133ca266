"""A rollout: one identity, played until it is judged; and what judges said of it."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, Q, Value, When

from console.models import Workspace, WorkspaceRowQuerySet
from desktops.models import Assignment, Computer
from runs.models import Task

from .evaluation import Batch, Evaluation


class Rollout(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        ERROR = "error", "Error"  # an infrastructure fault, as often as it is tried

    TERMINAL = (Status.DONE, Status.ERROR)

    class Verifier(models.TextChoices):
        VALID = "valid", "Valid"
        INVALID = "invalid", "Invalid"
        NOT_CHECKED = "not_checked", "Not checked"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="rollouts", db_index=False
    )
    evaluation = models.ForeignKey(
        Evaluation, on_delete=models.CASCADE, related_name="rollouts", db_index=False
    )
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="rollouts")
    number = models.PositiveIntegerField(help_text="Within its evaluation, without a gap.")
    identity = models.CharField(max_length=67)
    spec = models.JSONField(default=dict)
    seed = models.BigIntegerField(null=True, blank=True)
    task = models.ForeignKey(Task, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)

    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    verifier = models.CharField(max_length=12, choices=Verifier.choices, default=Verifier.NOT_CHECKED)
    reward = models.FloatField(null=True, blank=True)
    outcome = models.GeneratedField(
        expression=Case(
            When(Q(verifier="valid", reward__gte=1.0), then=Value("success")),
            When(Q(verifier="valid"), then=Value("fail")),
            default=Value(None),
        ),
        output_field=models.CharField(max_length=7, null=True),
        db_persist=True,
    )
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    tries = models.PositiveSmallIntegerField(default=0)
    source = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Whose verdict it took.",
    )
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "number"], name="rollout_number_once"),
            models.UniqueConstraint(fields=["evaluation", "identity"], name="rollout_identity_once"),
            models.CheckConstraint(
                condition=Q(verifier="valid", reward__isnull=False) | ~Q(verifier="valid"),
                name="rollout_valid_has_reward",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "identity", "status"], name="rollout_by_identity"),
            models.Index(fields=["evaluation", "status", "tries", "number"], name="rollout_of_evaluation"),
        ]

    def __str__(self) -> str:
        return f"{self.evaluation} #{self.number}"


class RolloutTry(models.Model):
    """One desktop's go at a rollout; infrastructure faults lead to another."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="try_rows", db_index=False)
    number = models.PositiveSmallIntegerField()
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="rollout_try")
    computer = models.ForeignKey(Computer, null=True, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    steps = models.PositiveSmallIntegerField(default=0)
    screenshot = models.CharField(max_length=64, blank=True, help_text="The last one.")
    ok = models.BooleanField(null=True, help_text="None while it goes on.")
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    judge_error = models.TextField(blank=True)
    detail = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "number"], name="rollout_try_once")]
        ordering = ["number"]

    def __str__(self) -> str:
        return f"{self.rollout}, try {self.number}"


class Verdict(models.Model):
    """What one judge said of one rollout. Judging again adds another beside it."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="verdicts")
    judge = models.CharField(max_length=150)
    digest = models.CharField(max_length=71, blank=True, help_text="Of the code that judged.")
    reward = models.FloatField()
    evidence = models.JSONField(default=list)
    screenshot = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "judge"], name="verdict_once_a_judge")]

    def __str__(self) -> str:
        return f"{self.judge} on {self.rollout}"
