"""Money. A tree of budgets (workspace → run): a reservation walks it to the root and must fit at every level.

Dollars, Decimal, six places. Invariant, held by the database: spent + reserved ≤ cap wherever there is a cap.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import models
from django.db.models import F, Q

from .workspace import Workspace, WorkspaceRowQuerySet


def money_field(**options: Any) -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=14, decimal_places=6, **options)


class Budget(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="budgets")
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    cap = money_field(null=True, blank=True, help_text="None: no cap at this level.")
    spent = money_field(default=Decimal(0))
    reserved = money_field(default=Decimal(0))

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(spent__gte=0) & Q(reserved__gte=0), name="budget_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(cap=None) | Q(cap__gte=F("spent") + F("reserved")), name="budget_cap_holds"
            ),
            models.UniqueConstraint(fields=["workspace"], condition=Q(parent=None), name="budget_one_root"),
        ]

    def __str__(self) -> str:
        return f"{self.spent} spent, {self.reserved} reserved of {self.cap}"

    @property
    def left(self) -> Decimal | None:
        return None if self.cap is None else self.cap - self.spent - self.reserved


class LedgerEntry(models.Model):
    """One desktop's cost: opened when it starts, settled once when it is observed to be gone."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="ledger")
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="entries")
    subject = models.UUIDField(unique=True, help_text="The computer.")
    rate_usd_per_hour = money_field()
    opened_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)
    seconds = models.DecimalField(max_digits=12, decimal_places=3, null=True, blank=True)
    cost = money_field(null=True, blank=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "ledger entries"
        indexes = [models.Index(fields=["budget"], condition=Q(settled_at=None), name="ledger_open")]
        constraints = [
            models.CheckConstraint(
                condition=Q(settled_at=None, cost=None, seconds=None)
                | Q(settled_at__isnull=False, cost__isnull=False, seconds__isnull=False),
                name="ledger_settled_whole",
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {self.cost if self.cost is not None else 'open'}"
