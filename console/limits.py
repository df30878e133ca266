"""Ranges that documents of all kinds have in common."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

# Of a spend cap, dollars.
CAP_MIN: Final = Decimal("0.01")
CAP_MAX: Final = Decimal("100000")
CAP_PLACES: Final = 2


class Range(NamedTuple):
    low: int
    high: int
    default: int | None
