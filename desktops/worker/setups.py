"""Who is setting up a desktop that is to be saved: whoever could start from that waits for it, without a desktop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from .task import SetupStep

PATIENCE_SECONDS = 120.0  # of whoever waits; after that they set up for themselves
AGAIN_SECONDS = 300.0  # that nobody waits for what could not be saved

QUICK = frozenset({"upload_file"})  # done in less time than a wait for somebody else's would take


def worth_waiting_for(steps: Iterable[SetupStep]) -> bool:
    return any(step.type not in QUICK for step in steps)


class Setups:
    """Use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[
            str, list[threading.Event]
        ] = {}  # of each name that is being made, who waits for it
        self._in_vain: dict[str, float] = {}  # names that nobody waits for until then

    def begin(self, name: str, go_on: threading.Event) -> bool:
        """Whether it is the caller who makes it, and then calls `end`. Else `go_on` is set once that has ended."""
        with self._lock:
            if time.monotonic() < self._in_vain.get(name, 0.0):
                go_on.set()
                return False
            if name in self._waiting:
                self._waiting[name].append(go_on)
                return False
            self._waiting[name] = []
            return True

    def waiting(self, name: str) -> int:
        """How many wait for it."""
        with self._lock:
            return len(self._waiting.get(name, ()))

    def end(self, name: str, *, in_vain: bool) -> None:
        """It is saved, or its maker has ended; `in_vain`: the next would not fare better."""
        now = time.monotonic()
        with self._lock:
            self._in_vain = {known: until for known, until in self._in_vain.items() if now < until}
            if in_vain:
                self._in_vain[name] = now + AGAIN_SECONDS
            for go_on in self._waiting.pop(name):
                go_on.set()
