"""Totals that pages read, kept by triggers in the statement that changes what they count.

Nobody writes these rows. `manage.py check_totals` compares them with what the views `…_counted` find in the rows.
"""

from __future__ import annotations

from django.db import models

from .attempt import Attempt
from .run import Run
from .task import Task


class TaskTally(models.Model):
    """Per run and task: attempts that are done or ended in error, and what their verdicts were."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="task_tallies", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    finished = models.IntegerField(default=0)
    valid = models.IntegerField(default=0)
    success = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "task"], name="task_tally_once")]
        verbose_name_plural = "task tallies"

    def __str__(self) -> str:
        return f"{self.task}: {self.finished} finished"


class ReasonTally(models.Model):
    """Per run and reason: finished attempts that have no verdict for it."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="reason_tallies", db_index=False)
    reason = models.CharField(max_length=40)
    count = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "reason"], name="reason_tally_once")]
        verbose_name_plural = "reason tallies"

    def __str__(self) -> str:
        return f"{self.reason}: {self.count}"


class NoVerdict(models.Model):
    """One reason why one finished attempt has no verdict: what finds the attempts of a reason by number."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+", db_index=False)
    reason = models.CharField(max_length=40)
    number = models.PositiveIntegerField(help_text="The attempt's.")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="no_verdict")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "reason", "number", "attempt"], name="no_verdict_once")
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.reason}"
