"""The one definition of each figure. Pages, API, SDK and exports read these functions and compute nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import TypedDict

from .models import Run


class Counts(TypedDict):
    """planned = queued + running + verifying + done + error + cancelled = valid + invalid + not_checked;
    valid = success + fail."""

    planned: int
    queued: int
    running: int
    verifying: int
    done: int
    error: int
    cancelled: int
    valid: int
    invalid: int
    not_checked: int
    success: int
    fail: int


class Cost(TypedDict):
    """Dollars. spent + reserved ≤ cap, always."""

    cap_usd: Decimal
    spent_usd: Decimal
    reserved_usd: Decimal


def counts(run: Run) -> Counts:
    return Counts(**{key: getattr(run, key) for key in Counts.__annotations__})


def cost(run: Run) -> Cost:
    budget = run.budget
    return Cost(cap_usd=budget.cap or Decimal(0), spent_usd=budget.spent, reserved_usd=budget.reserved)
