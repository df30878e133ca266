"""Money moves here and nowhere else: reserve ahead, settle what was used, release the rest.

A budget's ancestors are locked root first, so two movements can never wait for each other, and a movement is applied at
every level or at none. The database refuses any that would lift spent + reserved above a cap.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_UP, Decimal

from django.db import transaction

from console.actor import Actor
from console.doorbell import ring
from console.models import Budget, Workspace
from console.money import dollars, money

from . import audit
from .workspaces import require_manager

CENT = Decimal("0.01")
MOST = Decimal("10000000")  # what a workspace's cap may be set to, dollars
CENT_FRACTION = Decimal("0.000001")


class BudgetExhausted(Exception):
    """The amount does not fit under a cap. `budget` is the level nearest the root at which it does not."""

    def __init__(self, budget: Budget, left: Decimal) -> None:
        super().__init__(f"{left} left of {budget.cap}")
        self.budget = budget
        self.left = left


class CapTooLow(Exception):
    """A cap cannot lie below what is spent and reserved under it, `held`."""

    def __init__(self, held: Decimal) -> None:
        lowest = held.quantize(CENT, rounding=ROUND_UP)
        super().__init__(
            f"{money(held)} is spent or reserved already, so {dollars(lowest)} is the lowest possible."
        )


def cost_of(seconds: Decimal, rate_usd_per_hour: Decimal) -> Decimal:
    """Dollars for that many desktop seconds, rounded up to a millionth."""
    return (seconds * rate_usd_per_hour / 3600).quantize(CENT_FRACTION, rounding=ROUND_UP)


def seconds_for(amount: Decimal, rate_usd_per_hour: Decimal) -> int:
    """Whole desktop seconds that the amount buys."""
    if rate_usd_per_hour <= 0:
        return 10**9
    return int((amount * 3600 / rate_usd_per_hour).to_integral_value(rounding=ROUND_FLOOR))


def root_budget(workspace: Workspace) -> Budget:
    """The workspace's own budget; without a cap until somebody sets one."""
    budget, _ = Budget.objects.get_or_create(workspace=workspace, parent=None)
    return budget


def open_budget(*, workspace: Workspace, cap: Decimal | None, under: Budget | None = None) -> Budget:
    """A level under the workspace's unless another is named; None: with no cap of its own."""
    return Budget.objects.create(workspace=workspace, parent=under or root_budget(workspace), cap=cap)


def _locked_chain(budget: Budget) -> list[Budget]:
    """The budget and its ancestors, root first, locked."""
    ids = [budget.pk]
    parent = budget.parent_id
    while parent is not None:
        ids.append(parent)
        parent = Budget.objects.values_list("parent_id", flat=True).get(pk=parent)
    ids.reverse()
    rows = {
        row.pk: row for row in Budget.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    }
    return [rows[pk] for pk in ids]


@transaction.atomic
def set_cap(budget: Budget, cap: Decimal | None) -> Decimal | None:
    """Put another cap in force at this level and return the one before. None: no cap. Raises CapTooLow."""
    row = _locked_chain(budget)[-1]
    held = row.spent + row.reserved
    if cap is not None and cap < held:
        raise CapTooLow(held)
    was, row.cap = row.cap, cap
    row.save(update_fields=["cap"])
    budget.cap = cap
    return was


class CapRejected(ValueError):
    """The amount cannot be a cap. The message is a sentence for people."""


def check_workspace_cap(cap: Decimal | None) -> None:
    """Raises CapRejected for an amount that no workspace's cap can be."""
    if cap is not None and (not cap.is_finite() or not 0 <= cap <= MOST or cap != cap.quantize(CENT)):
        raise CapRejected(f"Must be dollars and cents, $0.00 to ${MOST:,.2f}.")


@transaction.atomic
def change_workspace_cap(workspace: Workspace, *, cap: Decimal | None, actor: Actor) -> Budget:
    """Set the cap on everything that the workspace spends; None takes it away. The same cap changes nothing.

    Raises NotAllowed for who does not manage the workspace, CapTooLow, CapRejected.
    """
    require_manager(workspace, actor, what="change the workspace’s spend cap")
    check_workspace_cap(cap)
    budget = root_budget(workspace)
    was = set_cap(budget, cap)
    if was != cap:
        audit.record(
            workspace=workspace,
            actor=actor,
            action="budget.cap_changed",
            subject="workspace budget",
            detail={"cap_usd": _dollars(cap), "was_usd": _dollars(was)},
        )
        ring("supervisor", f"workspace.{workspace.slug}")
    return budget


def _dollars(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.2f}"


def affordable(budget: Budget) -> tuple[Decimal | None, Budget | None]:
    """What is left at the tightest level (None: no cap anywhere), and that level."""
    left, tightest = None, None
    for level in _locked_chain(budget):
        if level.left is not None and (left is None or level.left < left):
            left, tightest = level.left, level
    return left, tightest


def left_now(budget: Budget) -> Decimal | None:
    """What is left at the tightest level at this moment, None without a cap; not locked, so no promise."""
    found: list[Decimal] = []
    level: Budget | None = Budget.objects.get(pk=budget.pk)
    while level is not None:
        if level.left is not None:
            found.append(level.left)
        level = level.parent
    return min(found, default=None)


@transaction.atomic
def reserve(budget: Budget, amount: Decimal) -> None:
    """Hold the amount at every level. Raises BudgetExhausted and holds nothing if it does not fit at one."""
    chain = _locked_chain(budget)
    for level in chain:
        if level.left is not None and level.left < amount:
            raise BudgetExhausted(level, level.left)
    for level in chain:
        level.reserved += amount
        level.save(update_fields=["reserved"])


@transaction.atomic
def settle(budget: Budget, *, reserved: Decimal, cost: Decimal) -> None:
    """Turn `cost` of a reservation into spending and release the rest. cost ≤ reserved."""
    for level in _locked_chain(budget):
        level.reserved -= reserved
        level.spent += cost
        level.save(update_fields=["reserved", "spent"])


def release(budget: Budget, amount: Decimal) -> None:
    """Give a reservation back unused."""
    if amount:
        settle(budget, reserved=amount, cost=Decimal(0))
