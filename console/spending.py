"""What a budget has cost by now, for pages: settled money, and the desktops that run.

A desktop's cost is settled when it was seen to be gone (`Budget.spent`); while it runs, its seconds so far × its rate
are part of what is reserved for it. The last few seconds are not counted yet: it may have ended in them, and word of it
be on its way. So what is spent does not fall when a desktop's cost is settled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from console.actions.budgets import cost_of
from console.models import Budget, LedgerEntry, Workspace

ON_ITS_WAY_SECONDS = 5.0


def cost_by_now(opened_at: datetime, rate_usd_per_hour: Decimal, now: datetime) -> Decimal:
    """Of a desktop whose end is not known."""
    seconds = (now - opened_at).total_seconds() - ON_ITS_WAY_SECONDS
    return cost_of(Decimal(max(0.0, seconds)), rate_usd_per_hour)


@dataclass(frozen=True)
class SoFar:
    """Dollars. `ahead` is reserved and not used yet: spent + ahead = the budget's spent + reserved."""

    spent: Decimal
    ahead: Decimal


def so_far(workspace: Workspace, budgets: Iterable[Budget], now: datetime) -> dict[int, SoFar]:
    """By the budget's primary key. One query, for any number of budgets."""
    running: dict[int, Decimal] = defaultdict(Decimal)
    every = Decimal(0)
    entries = LedgerEntry.objects.for_workspace(workspace).filter(settled_at=None)
    for budget_id, rate, opened_at in entries.values_list("budget_id", "rate_usd_per_hour", "opened_at"):
        cost = cost_by_now(opened_at, rate, now)
        running[budget_id] += cost
        every += cost
    found = {}
    for budget in budgets:
        # A desktop whose worker is silent is never billed beyond what was reserved for it.
        used = min(every if budget.parent_id is None else running[budget.pk], budget.reserved)
        found[budget.pk] = SoFar(budget.spent + used, budget.reserved - used)
    return found
