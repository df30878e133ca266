"""How dollars are written, everywhere: what was used, or follows from it, to four places; what somebody set, as set.

Both are exact enough to be added up by whoever reads them: a column of one page never mixes cents and parts of cents.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

LEAST: Final = Decimal("0.0001")


def money(value: Decimal | float | None) -> str:
    """Spent, reserved, left, foretold: `$0.0137`, `$14.9863`; what is less and not nothing is said to be."""
    if value is None:
        return "—"
    amount = Decimal(value)
    rounded = amount.quantize(LEAST, ROUND_HALF_UP)
    if amount > 0 and not rounded:
        return f"< ${LEAST}"
    return f"−${-rounded:,}" if rounded < 0 else f"${rounded.copy_abs():,}"


def dollars(value: Decimal | float | None) -> str:
    """A cap or a price: at least cents, and further only as far as it goes: `$0.50`, `$0.0625`."""
    if value is None:
        return "—"
    amount = Decimal(value).normalize()
    exponent = amount.as_tuple().exponent
    places = max(2, -exponent if isinstance(exponent, int) else 2)
    return f"${amount:,.{places}f}"
