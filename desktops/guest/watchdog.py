"""Ends the desktop when nobody owns it any more: nobody has spoken to it for a while, or nobody pays for
it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

POLL_SECONDS = 0.25
PAUSED_SECONDS = 5.0  # a gap this long between two looks means that the desktop itself was stopped or saved
GRACE_SECONDS = 1.0


class Watchdog:
    """`silence_seconds` of 0 means no limit; `paid_until` is seconds since 1970, or None."""

    def __init__(self, session: int, silence_seconds: float, paid_until: float | None) -> None:
        self._session = session
        self.silence_seconds = silence_seconds
        self.paid_until = paid_until
        self._heard = time.monotonic()

    def heard(self) -> None:
        """Somebody outside spoke."""
        self._heard = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        looked = time.monotonic()
        while True:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if now - looked > PAUSED_SECONDS:
                self._heard = now  # a restored desktop starts a new silence; what is paid for stays as it was
            looked = now
            if self.paid_until is not None and time.time() >= self.paid_until:
                self._end("nothing pays for this desktop any longer")
            if self.silence_seconds and now - self._heard > self.silence_seconds:
                self._end(f"nobody has spoken to this desktop for {self.silence_seconds:g} s")

    def _end(self, why: str) -> None:
        print(f"watchdog: {why}: ending it", file=sys.stderr, flush=True)
        os.kill(self._session, signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        # The session did not go by itself: end every process this user may signal, this one last.
        os.kill(-1, signal.SIGKILL)
        os._exit(1)
