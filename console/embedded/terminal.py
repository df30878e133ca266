"""What a person sees of `make up`: steps with their time, progress in long ones, and problems."""

from __future__ import annotations

import contextlib
import io
import select
import sys
import time
from collections.abc import Iterator
from typing import TextIO

NEWS_SECONDS = 10  # in a log file: at most one progress line in this time


class StepFailed(Exception):
    """A step did not go through: which, why, and what to do about it."""

    def __init__(self, step: str, why: str, what_to_do: str) -> None:
        super().__init__(f"{step} failed: {why}")
        self.step, self.why, self.what_to_do = step, why, what_to_do


class Terminal:
    """Writes lines. A terminal that was closed is no reason to stop in the middle of ending everything."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._live = self._out.isatty()
        self._gone = False
        self._last = ""
        self._told = 0.0
        self._open = ""  # an unfinished line that the next one replaces

    def was_closed(self) -> bool:
        """Has the terminal gone away? The kernel tells only the first process on it, which may be make."""
        if self._gone or not self._live:
            return self._gone
        poll = select.poll()
        poll.register(self._out, 0)
        return bool(poll.poll(0))

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name, then its time when it is done."""
        begun = self._told = time.monotonic()
        self._replace(f"  … {name}")
        try:
            yield
        except BaseException:
            self.line(f"  ✗ {name}")
            raise
        self.line(f"  ✓ {name} ({_seconds(time.monotonic() - begun)})")

    def progress(self, text: str) -> None:
        """How far the running step is. Replaces the last such line on a terminal, seldom speaks in a file."""
        text = text.strip().replace("\n", " ")
        if self._live:
            self._replace(f"    {text}"[:110])
        elif text != self._last and time.monotonic() - self._told >= NEWS_SECONDS:
            self._told, self._last = time.monotonic(), text
            self.line(f"    {text}"[:200])

    def line(self, text: str = "") -> None:
        clear = f"\r{' ' * len(self._open)}\r" if self._open else ""
        self._open = ""
        self._write(f"{clear}{text}\n")

    def failed(self, failure: StepFailed) -> None:
        self.line()
        self.line(f"{failure.step} failed.")
        self.line(f"  Why:        {failure.why}")
        self.line(f"  What to do: {failure.what_to_do}")

    def _replace(self, text: str) -> None:
        if self._live:
            self._write(f"\r{' ' * len(self._open)}\r{text}")
            self._open = text

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):  # the terminal is gone; the logs are not
            self._gone, self._live, self._out = self._live, False, io.StringIO()


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"
