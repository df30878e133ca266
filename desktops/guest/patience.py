"""How long to wait for what a desktop does, on a machine that may have more to do than it has processors for."""

from __future__ import annotations

import os
import time

# The worker waits for an answer that much longer than it asked the desktop to wait (desktops.worker.guest_client).
SLOWEST = 5.0


class Patience:
    """So many seconds of a machine that is not overloaded.

    While three programs a processor want to run, a program gets a third of what it would have had, so a second of
    patience lasts three: up to `SLOWEST`. Looked at by whoever waits, each time round.
    """

    def __init__(self, seconds: float) -> None:
        self._left, self._seen = seconds, time.monotonic()

    def left(self) -> float:
        """Seconds; zero when it has run out."""
        now = time.monotonic()
        self._left -= (now - self._seen) / slowness()
        self._seen = now
        return max(0.0, self._left)


def slowness() -> float:
    """Programs that run or want to (but for this one), a processor: at least 1, at most SLOWEST."""
    with open("/proc/loadavg", "rb") as file:
        running = int(file.read().split()[3].partition(b"/")[0])
    return min(SLOWEST, max(1.0, (running - 1) / (os.cpu_count() or 1)))
