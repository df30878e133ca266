"""A run: a managed batch of attempts, with caps, counters and the reason why it stopped."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from django.db import models
from django.db.models import F, Q

from console.models import Budget, User, Workspace, WorkspaceRowQuerySet
from desktops.models import TemplateVersion
from runs import limits

from .task import TaskSet

if TYPE_CHECKING:
    from runs.pending import Pending


class RunQuerySet(WorkspaceRowQuerySet):
    def active(self) -> Self:
        return self.filter(status__in=Run.ACTIVE)


class Run(models.Model):
    class Kind(models.TextChoices):
        SCRIPTED_TEST = "scripted_test", "Scripted test"  # replays recipes; proves the pipeline
        EVALUATION = "evaluation", "Evaluation"  # plays a model

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"  # stored; no desktop asked for yet
        PREPARING = "preparing", "Preparing"  # first attempts offered, none playing yet
        RUNNING = "running", "Running"
        RECOVERING = "recovering", "Recovering"  # a worker was lost; its attempts are offered again
        VERIFYING = "verifying", "Verifying"  # nothing left to play, checkers still at work
        CANCELLING = "cancelling", "Cancelling"  # told to stop; desktops are going away
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    ACTIVE = (
        Status.QUEUED,
        Status.PREPARING,
        Status.RUNNING,
        Status.RECOVERING,
        Status.VERIFYING,
        Status.CANCELLING,
    )
    TERMINAL = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)

    class StopReason(models.TextChoices):
        ALL_TASKS_DONE = "all_tasks_done", "Every attempt finished"
        VERIFIED_TARGET_REACHED = "verified_target_reached", "Enough valid attempts"
        BUDGET_EXCEEDED = "budget_exceeded", "Spend cap reached"
        TIME_CAP_REACHED = "time_cap_reached", "Time cap reached"
        WORKSPACE_BUDGET_EXCEEDED = "workspace_budget_exceeded", "Workspace spend cap reached"
        CANCELLED_BY_USER = "cancelled_by_user", "Cancelled"
        CANCELLED_BY_OPERATOR = "cancelled_by_operator", "Cancelled by the operator"
        WORKER_LOST = "worker_lost", "Worker lost"
        INFRASTRUCTURE_FAILURE = "infrastructure_failure", "Infrastructure failure"
        CONFIG_REJECTED = "config_rejected", "Configuration rejected"

    # What a run that stopped for this reason ends as.
    ENDS_AS = {
        StopReason.ALL_TASKS_DONE: Status.COMPLETED,
        StopReason.VERIFIED_TARGET_REACHED: Status.COMPLETED,
        StopReason.BUDGET_EXCEEDED: Status.COMPLETED,
        StopReason.TIME_CAP_REACHED: Status.COMPLETED,
        StopReason.WORKSPACE_BUDGET_EXCEEDED: Status.COMPLETED,
        StopReason.CANCELLED_BY_USER: Status.CANCELLED,
        StopReason.CANCELLED_BY_OPERATOR: Status.CANCELLED,
        StopReason.WORKER_LOST: Status.FAILED,
        StopReason.INFRASTRUCTURE_FAILURE: Status.FAILED,
        StopReason.CONFIG_REJECTED: Status.FAILED,
    }

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=limits.NAME_LENGTH)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.QUEUED)
    stop_reason = models.CharField(max_length=40, choices=StopReason.choices, blank=True)
    stop_detail = models.TextField(blank=True)
    spec = models.JSONField(help_text="The document as it was accepted, defaults filled in.")
    task_ids = models.JSONField(help_text="Primary keys of the tasks, in order.")
    task_set = models.ForeignKey(TaskSet, on_delete=models.PROTECT, related_name="+")
    template_version = models.ForeignKey(TemplateVersion, on_delete=models.PROTECT, related_name="+")
    budget = models.OneToOneField(Budget, on_delete=models.PROTECT, related_name="run")
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_via = models.CharField(max_length=120, blank=True, help_text="page, or the token's name")

    # The caps in force: this and the budget's. The document keeps those that the run was created with.
    time_cap_minutes = models.PositiveSmallIntegerField(default=limits.TIME_CAP_MINUTES.default)

    planned = models.PositiveIntegerField()
    rounds_created = models.PositiveSmallIntegerField(default=0)
    running = models.PositiveIntegerField(default=0)
    verifying = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    error = models.PositiveIntegerField(default=0)
    cancelled = models.PositiveIntegerField(default=0)
    valid = models.PositiveIntegerField(default=0)
    invalid = models.PositiveIntegerField(default=0)
    success = models.PositiveIntegerField(default=0)
    last_seq = models.PositiveBigIntegerField(default=0)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # An ended run may be reopened for what ended without a verdict. The time in between is not its own.
    reopened = models.PositiveSmallIntegerField(default=0, help_text="How often.")
    resumed_at = models.DateTimeField(null=True, blank=True, help_text="When it played on after that.")
    earlier_seconds = models.FloatField(default=0, help_text="What it had lasted before that.")

    objects = RunQuerySet.as_manager()

    # While a batch of records is applied: what is not written yet. See runs.pending.
    pending: Pending | None = None

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "number"], name="run_number_once"),
            models.CheckConstraint(
                condition=Q(kind__in=["scripted_test", "evaluation"]), name="run_kind_offered"
            ),
            models.CheckConstraint(
                condition=Q(planned__gte=1, planned__lte=limits.LARGEST_RUN), name="run_planned_in_range"
            ),
            models.CheckConstraint(
                condition=Q(
                    time_cap_minutes__gte=limits.TIME_CAP_MINUTES.low,
                    time_cap_minutes__lte=limits.TIME_CAP_MINUTES.high,
                ),
                name="run_time_cap_in_range",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["completed", "failed", "cancelled"], ended_at__isnull=False)
                & ~Q(stop_reason="")
                | ~Q(status__in=["completed", "failed", "cancelled"]) & Q(ended_at=None),
                name="run_ended_has_reason",
            ),
            models.CheckConstraint(
                condition=Q(
                    planned__gte=F("running") + F("verifying") + F("done") + F("error") + F("cancelled"),
                    valid__gte=F("success"),
                ),
                name="run_counts_add_up",
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "-number"]),
            models.Index(
                fields=["created_at"],
                condition=~Q(status__in=["completed", "failed", "cancelled"]),
                name="run_active",
            ),
        ]
        ordering = ["-number"]

    def __str__(self) -> str:
        return f"#{self.number} {self.name}"

    @property
    def is_terminal(self) -> bool:
        return self.status in self.TERMINAL

    @property
    def is_scripted(self) -> bool:
        return self.kind == self.Kind.SCRIPTED_TEST

    @property
    def queued(self) -> int:
        """Attempts not begun, those of rounds that are not stored yet included."""
        return self.planned - self.running - self.verifying - self.done - self.error - self.cancelled

    @property
    def finished(self) -> int:
        return self.done + self.error

    @property
    def judged(self) -> int:
        """Attempts that have their verdict while their desktop is still going away."""
        return min(self.verifying, max(0, self.valid - self.done))

    @property
    def unjudged(self) -> int:
        """Attempts that play and have no verdict: cancelled if the run is cancelled now."""
        return self.running + self.verifying - self.judged

    @property
    def fail(self) -> int:
        return self.valid - self.success

    @property
    def not_checked(self) -> int:
        return self.planned - self.valid - self.invalid

    @property
    def going_since(self) -> datetime | None:
        """When its present stretch began; None while it is queued."""
        return self.resumed_at if self.reopened else self.started_at

    def time_used(self, now: datetime) -> float:
        """Seconds that count against the time cap: from the first desktop asked for until it ended, or until now."""
        if self.going_since is None:
            return self.earlier_seconds
        return self.earlier_seconds + max(0.0, ((self.ended_at or now) - self.going_since).total_seconds())

    @property
    def deadline(self) -> datetime | None:
        if self.going_since is None:
            return None
        return self.going_since + timedelta(minutes=self.time_cap_minutes, seconds=-self.earlier_seconds)


class RunDraft(models.Model):
    """What somebody has filled in of the New run wizard: one a person and workspace, kept until launched."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    document = models.JSONField(default=dict)
    saved_at = models.DateTimeField(auto_now=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "user"], name="run_draft_one_each")]

    def __str__(self) -> str:
        return f"Draft of {self.user}"
