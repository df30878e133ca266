"""Attempts: one task on one desktop, with three independent columns, every try kept."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, Value, When

from console.models import Workspace, WorkspaceRowQuerySet
from desktops.models import Assignment, Computer, Worker
from runs import limits

from .prefix import Prefix, PrefixTry
from .run import Run
from .task import Task


class Attempt(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        VERIFYING = "verifying", "Verifying"
        DONE = "done", "Done"
        ERROR = "error", "Error"
        CANCELLED = "cancelled", "Cancelled"

    LIVE = (Status.RUNNING, Status.VERIFYING)
    TERMINAL = (Status.DONE, Status.ERROR, Status.CANCELLED)

    class Verifier(models.TextChoices):
        VALID = "valid", "Valid"
        INVALID = "invalid", "Invalid"
        NOT_CHECKED = "not_checked", "Not checked"

    class Outcome(models.TextChoices):
        SUCCESS = "success", "Success"
        FAIL = "fail", "Fail"

    class ForkMethod(models.TextChoices):
        LIVE = "live", "Restored from the saved desktop"
        REPLAY = "replay", "Prefix played again"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, on_delete=models.CASCADE, related_name="attempts", db_index=False
    )
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField(help_text="1 … planned, in the order of play.")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    round = models.PositiveSmallIntegerField()
    copy = models.PositiveSmallIntegerField()
    fork = models.PositiveSmallIntegerField()
    fork_method = models.CharField(max_length=6, choices=ForkMethod.choices, blank=True)
    prefix = models.ForeignKey(
        Prefix,
        null=True,
        on_delete=models.RESTRICT,
        related_name="attempts",
        db_index=False,
        help_text="What it was to start from; none where it plays its first steps itself.",
    )

    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    verifier = models.CharField(max_length=11, choices=Verifier.choices, default=Verifier.NOT_CHECKED)
    reward = models.FloatField(null=True, blank=True)
    outcome = models.GeneratedField(
        expression=Case(
            When(verifier="valid", reward__gte=1.0, then=Value("success")),
            When(verifier="valid", then=Value("fail")),
            default=None,
        ),
        output_field=models.CharField(max_length=7, null=True),
        db_persist=True,
    )
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    checker_error = models.TextField(blank=True)
    steps = models.PositiveSmallIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    tries_allowed = models.PositiveSmallIntegerField(
        default=limits.TRIES, help_text="Grows when somebody has an attempt without a verdict tried again."
    )
    computer = models.ForeignKey(Computer, null=True, on_delete=models.PROTECT, related_name="attempts")
    worker = models.ForeignKey(Worker, null=True, on_delete=models.PROTECT, related_name="+", db_index=False)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="attempt_number_once"),
            models.CheckConstraint(
                condition=Q(verifier="valid", reward__isnull=False) | ~Q(verifier="valid"),
                name="attempt_valid_has_reward",
            ),
            models.CheckConstraint(condition=Q(tries__lte=F("tries_allowed")), name="attempt_tries_bounded"),
        ]
        indexes = [
            # What lists are filtered by: the three columns together, a task, a worker, tries; each in order of number.
            models.Index(fields=["run", "status", "verifier", "number"], name="attempt_columns"),
            models.Index(
                fields=["run", "status", "outcome", "number"],
                condition=Q(outcome__isnull=False),
                name="attempt_outcome",
            ),
            models.Index(fields=["run", "task", "number"]),
            models.Index(fields=["run", "worker", "number"], name="attempt_worker"),
            models.Index(fields=["run", "number"], condition=Q(tries__gt=1), name="attempt_tried_again"),
            models.Index(
                fields=["run", "number"], condition=Q(status__in=["done", "error"]), name="attempt_finished"
            ),
            # What the supervisor looks for in each pass.
            models.Index(
                fields=["run"], condition=Q(status__in=["running", "verifying"]), name="attempt_live"
            ),
            models.Index(
                fields=["run", "tries", "number"], condition=Q(status="queued"), name="attempt_queue"
            ),
            models.Index(fields=["prefix"], condition=Q(prefix__isnull=False), name="attempt_of_prefix"),
        ]
        ordering = ["number"]

    def __str__(self) -> str:
        return f"Attempt {self.number} of {self.run}"

    @property
    def is_terminal(self) -> bool:
        return self.status in self.TERMINAL

    @property
    def duration_seconds(self) -> float | None:
        """From the first desktop asked for until the verdict; None while it has not ended."""
        if self.started_at is None or self.ended_at is None:
            return None
        return round((self.ended_at - self.started_at).total_seconds(), 3)


class AttemptTry(models.Model):
    """One go at an attempt on one worker. An infrastructure fault ends a try, not the attempt."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="try_rows", db_index=False)
    number = models.PositiveSmallIntegerField()
    assignment = models.OneToOneField(Assignment, on_delete=models.PROTECT, related_name="attempt_try")
    computer = models.ForeignKey(Computer, null=True, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField(auto_now_add=True)
    setup_seconds = models.FloatField(null=True, blank=True)
    setup_screenshot = models.CharField(max_length=64, blank=True)
    from_state = models.CharField(max_length=120, blank=True, help_text="Name of the state it started from.")
    from_digest = models.CharField(max_length=71, blank=True, help_text="Of that state.")
    ended_at = models.DateTimeField(null=True, blank=True)
    ok = models.BooleanField(null=True, help_text="None while it goes on.")
    invalid_reasons = ArrayField(models.CharField(max_length=40), default=list)
    checker_error = models.TextField(blank=True)
    detail = models.TextField(blank=True)
    reward = models.FloatField(null=True, blank=True)
    verdict = models.JSONField(null=True, blank=True, help_text="desktops.protocol.attempt.Verdict, whole.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["attempt", "number"], name="try_number_once")]
        ordering = ["number"]
        verbose_name_plural = "attempt tries"

    def __str__(self) -> str:
        return f"Try {self.number} of {self.attempt}"


class Step(models.Model):
    """One action in a try, of an attempt or of a prefix, and what the screen showed after it. Times in milliseconds."""

    attempt_try = models.ForeignKey(
        AttemptTry, null=True, on_delete=models.CASCADE, related_name="steps", db_index=False
    )
    prefix_try = models.ForeignKey(
        PrefixTry, null=True, on_delete=models.CASCADE, related_name="steps", db_index=False
    )
    number = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    action = models.JSONField()
    prefix = models.BooleanField(default=False)
    policy_ms = models.FloatField(default=0)
    act_ms = models.FloatField()
    settle_ms = models.FloatField()
    grab_ms = models.FloatField()
    settled = models.BooleanField()
    screenshot = models.CharField(max_length=64)
    active_window = models.CharField(max_length=300, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt_try", "number"], name="step_once"),
            models.UniqueConstraint(
                fields=["prefix_try", "number"],
                condition=Q(prefix_try__isnull=False),
                name="step_of_prefix_once",
            ),
            models.CheckConstraint(
                condition=Q(attempt_try=None, prefix_try__isnull=False, prefix=True)
                | Q(attempt_try__isnull=False, prefix_try=None),
                name="step_of_one_try",
            ),
        ]
        ordering = ["number"]

    def __str__(self) -> str:
        return f"Step {self.number} of {self.attempt_try or self.prefix_try}"

    @property
    def took_ms(self) -> float:
        return self.policy_ms + self.act_ms + self.settle_ms + self.grab_ms
