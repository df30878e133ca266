"""Many may speak at once, or one may ask for silence."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._speaking = 0
        self._silence = False

    @contextlib.contextmanager
    def speak(self) -> Iterator[None]:
        """Waits while somebody has asked for silence."""
        with self._changed:
            self._changed.wait_for(lambda: not self._silence)
            self._speaking += 1
        try:
            yield
        finally:
            with self._changed:
                self._speaking -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Waits until nobody speaks; whoever wants to meanwhile waits for the end of this."""
        with self._changed:
            self._changed.wait_for(lambda: not self._silence)
            self._silence = True
            self._changed.wait_for(lambda: not self._speaking)
        try:
            yield
        finally:
            with self._changed:
                self._silence = False
                self._changed.notify_all()
