"""What was settled when, kept by a trigger on the ledger, so that no page adds up a million entries."""

from __future__ import annotations

from typing import Final

from django.db import models
from django.db.models import Q

from .budget import Budget, money_field
from .workspace import Workspace, WorkspaceRowQuerySet

SLOT_SECONDS: Final = 5


class LedgerTally(models.Model):
    """Settled entries of a budget in a day (UTC) or in a slot of SLOT_SECONDS. Nobody writes these rows;
    `manage.py check_totals` compares them with the ledger."""

    class Span(models.TextChoices):
        DAY = "day", "Day"
        SLOT = "slot", "Five seconds"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+", db_index=False)
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="tallies", db_index=False)
    span = models.CharField(max_length=4, choices=Span.choices)
    since = models.DateTimeField(help_text="When the day or slot began.")
    entries = models.IntegerField(default=0)
    seconds = models.DecimalField(max_digits=15, decimal_places=3, default=0)
    cost = money_field(default=0)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["budget", "span", "since"], name="ledger_tally_once"),
        ]
        indexes = [
            models.Index(fields=["workspace", "since"], condition=Q(span="day"), name="ledger_tally_days")
        ]
        verbose_name_plural = "ledger tallies"

    def __str__(self) -> str:
        return f"{self.span} from {self.since}: {self.cost}"
