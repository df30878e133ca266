"""The ranges and defaults of a run document: the one place. Serializer, wizard and database constraints read these."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple


class Range(NamedTuple):
    low: int
    high: int
    default: int | None


TASKS: Final = Range(1, 366, None)
PARALLEL_COPIES: Final = Range(1, 8, 1)
FORK_COPIES: Final = Range(1, 8, 1)
PREFIX_STEPS: Final = Range(0, 20, 0)
MAX_STEPS: Final = Range(1, 50, 15)
ROUNDS: Final = Range(1, 50, 1)
TIME_CAP_MINUTES: Final = Range(1, 1440, 30)
STOP_AFTER_VALID: Final = Range(1, 1_171_200, None)
LARGEST_RUN: Final = TASKS.high * PARALLEL_COPIES.high * FORK_COPIES.high * ROUNDS.high

SPEND_CAP_MIN: Final = Decimal("0.01")
SPEND_CAP_MAX: Final = Decimal("100000")
SPEND_CAP_PLACES: Final = 2
NAME_LENGTH: Final = 120

# An infrastructure fault is tried again this often in all before the attempt ends without a verdict.
TRIES: Final = 3
MOST_TRIES: Final = 300  # of one attempt, with all that were asked for by hand; the column is small
