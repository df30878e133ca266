"""A person in place of the policy: they hold the desktop until they leave, and its attempt waits for that."""

from __future__ import annotations

import threading


class NotNow(Exception):
    """The desktop cannot be watched or taken over at this moment; the message says why, to the person who asked."""


class Hold:
    """`begin` by the attempt, once nothing else acts; `leave` by the person's end, or whoever ends the attempt."""

    def __init__(self, by: str) -> None:
        self.by = by
        self._begun, self._left = threading.Event(), threading.Event()

    def begin(self) -> None:
        """The desktop is theirs; returns when they have left it."""
        self._begun.set()
        self._left.wait()

    def wait_until_theirs(self) -> None:
        """Raises NotNow when it ended before it began."""
        self._begun.wait()
        if self._left.is_set():
            raise NotNow("The desktop has ended.")

    def leave(self) -> None:
        self._left.set()
