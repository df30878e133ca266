"""A saved desktop for each image, so that an attempt's desktop is there in a fraction of its cold start.

The desktop that is saved belongs to no run: it is made once an image is here, lives for a few seconds, and costs
nobody anything but this machine's time.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterable

from .computer import Computer, StartFailed
from .engine.base import DeskSpec, Engine, EngineError, warm_state
from .guest_client import GuestError
from .states import States

log = logging.getLogger(__name__)

AGAIN_SECONDS = 300.0
QUIET_MS, QUIET_CAP_MS = 500, 15_000  # the session has nothing left to do


class Warmer:
    """Use `keep_up` from one thread; `computers` from any."""

    def __init__(self, engine: Engine, states: States, closing: threading.Event) -> None:
        self._engine, self._states = engine, states
        self._closing = closing
        self._not_before: dict[str, float] = {}  # image → when saving one is tried again
        self.computers: frozenset[str] = frozenset()  # a sweep must leave them alone

    def keep_up(self, images: Iterable[str]) -> None:
        """Save a desktop of each image (digests) that has none, if no other saved one has to leave for it.

        An image that cannot be saved starts cold, which the log says, and is tried again after AGAIN_SECONDS.
        """
        for image in images:
            if self._closing.is_set():
                return
            if self._states.has(warm_state(image)) or not self._states.has_room():
                continue
            if time.monotonic() < self._not_before.get(image, 0.0):
                continue
            try:
                self._save(warm_state(image), image)
            except (EngineError, StartFailed, GuestError) as error:
                self._not_before[image] = time.monotonic() + AGAIN_SECONDS
                log.warning("desktops of %s start cold for now: none could be saved: %s", image[:19], error)

    def _save(self, name: str, image: str) -> None:
        spec = DeskSpec(computer=str(uuid.uuid4()), image=image)
        self.computers = frozenset({spec.computer})
        try:
            with Computer(self._engine, spec) as computer:
                computer.guest.settle(quiet_ms=QUIET_MS, timeout_ms=QUIET_CAP_MS)
                state = self._states.save(computer, name, resume=False)
            log.info(
                "a desktop of %s is saved, %d MB: the next start from it", image[:19], state.size_bytes >> 20
            )
        finally:
            self.computers = frozenset()
