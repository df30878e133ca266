"""The ranges and defaults of a run document: the one place. Serializer, wizard and database constraints read these."""

from __future__ import annotations

from typing import Final

from console.limits import CAP_MAX, CAP_MIN
from console.limits import Range as Range

TASKS: Final = Range(1, 366, None)
PARALLEL_COPIES: Final = Range(1, 8, 1)
FORK_COPIES: Final = Range(1, 8, 1)
PREFIX_STEPS: Final = Range(0, 20, 0)
MAX_STEPS: Final = Range(1, 50, 15)
ROUNDS: Final = Range(1, 50, 1)
TIME_CAP_MINUTES: Final = Range(1, 1440, 30)
STOP_AFTER_VALID: Final = Range(1, 1_171_200, None)
LARGEST_RUN: Final = TASKS.high * PARALLEL_COPIES.high * FORK_COPIES.high * ROUNDS.high

SPEND_CAP_MIN: Final = CAP_MIN
SPEND_CAP_MAX: Final = CAP_MAX
NAME_LENGTH: Final = 120

# An infrastructure fault is tried again this often in all before the attempt ends without a verdict.
TRIES: Final = 3
MOST_TRIES: Final = 300  # of one attempt, with all that were asked for by hand; the column is small
