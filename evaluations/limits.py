"""The ranges and defaults of rollouts: the one place."""

from __future__ import annotations

from typing import Final

from console.limits import Range

LEASE_BATCH: Final = Range(1, 8192, 32)
LEASE_BATCH_OPENENV: Final = Range(1, 64, 16)  # each granted rollout forks a sandbox
RUNNERS: Final = Range(1, 32, 4)
MAX_DURATION_MINUTES: Final = Range(1, 10_080, 240)
GROUP: Final = Range(2, 64, None)
ROWS: Final = Range(1, 100_000, None)  # of one batch
SEED: Final = Range(-(2**63), 2**63 - 1, None)

NAME_LENGTH: Final = 100
TEXT_LENGTH: Final = 2_000
LABELS: Final = 32
ENV: Final = 64
DEFAULT_CHIP: Final = "h100"
