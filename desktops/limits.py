"""Ranges and defaults of a computer that somebody opens: serializer, form and pages read these."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from console.limits import Range

IDLE_MINUTES: Final = Range(1, 240, 15)
MAX_MINUTES: Final = Range(1, 1440, 60)
SPEND_CAP: Final = Decimal("0.50")  # dollars, unless another is named
KEEP_DAYS: Final = Range(1, 365, 14)  # what a person has saved, since it was last used
LABEL_LENGTH: Final = 120
TITLE_LENGTH: Final = 100
