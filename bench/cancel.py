"""From the call that cancels a run with eight live desktops until the engine has no container of it left."""

from __future__ import annotations

import time

from .site import repeat
from .table import Figure, Peer, Row, Samples
from .whole import DESKTOPS, Whole, until

LIMIT_SECONDS = 5.0
TIMES, SECONDS = 3, 60.0


def measure(whole: Whole) -> list[Row]:
    found = repeat(lambda: _once(whole), TIMES, SECONDS)
    gone, told = (Samples(tuple(values)) for values in zip(*found, strict=True))
    limit = Peer("limit", Samples((LIMIT_SECONDS,)))
    return [
        Figure(
            f"cancel a run of {DESKTOPS} desktops, until the last is gone", "s", gone, limit, LIMIT_SECONDS
        ),
        Figure("until the run says so", "s", told, limit, part=True),
    ]


def _once(whole: Whole) -> tuple[float, float]:
    """Seconds until the engine has no desktop left, and until the run has ended."""
    run = whole.play()
    began = time.monotonic()
    whole.api.post(f"/v1/runs/{run}/cancel", {})
    until(lambda: not whole.engine.list_owned(), "the last desktop's end")
    gone = time.monotonic() - began
    until(lambda: whole.status(run) == "cancelled", "the run's end")
    return gone, time.monotonic() - began
