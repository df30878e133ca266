"""Tells when the screen has come to rest: nothing is drawn, and nobody is about to draw."""

from __future__ import annotations

import os
import select
import threading
import time

from Xlib.display import Display
from Xlib.ext import damage as xdamage

from .patience import Patience

PATIENCE_MS = 1500.0  # what a program that computes, and draws nothing, may hold the answer up
LOOK_MS = 12.0


class Rest:
    """By the X server's damage reports, and by whether any program of the desktop wants the processor.

    On a busy machine a program may get its turn long after the quiet time is over. It is waiting for the processor
    or the disk meanwhile, and that shows: so a quiet screen counts once nothing of the desktop is waiting.
    """

    def __init__(self, display: str) -> None:
        self._lock = threading.Lock()
        self._display = Display(display)
        self._display.damage_query_version()
        root = self._display.screen().root
        self._damage = root.damage_create(xdamage.DamageReportNonEmpty)
        self._display.sync()

    def wait(
        self, quiet_ms: float, timeout_ms: float, patience_ms: float = PATIENCE_MS
    ) -> tuple[bool, float]:
        """Wait until nothing was drawn for `quiet_ms`: (whether it came to that in `timeout_ms`, ms waited).

        A program that computes and draws nothing is waited for `patience_ms` at most. Both are of a machine that is
        not overloaded; on one that is they last longer.
        """
        with self._lock:
            started, patience = time.monotonic(), Patience(timeout_ms / 1000)
            self._drain()
            while True:
                if not self._quiet(quiet_ms, patience):
                    return False, _since(started)
                if quiet_ms <= 0:
                    return True, _since(started)
                idle = self._idle(min(patience.left(), patience_ms / 1000))
                if idle is not None:
                    return idle, _since(started)

    def _quiet(self, quiet_ms: float, patience: Patience) -> bool:
        """Wait for a stretch of `quiet_ms` in which nothing is drawn; false when patience runs out first."""
        quiet_at = time.monotonic() + quiet_ms / 1000
        while (missing := quiet_at - time.monotonic()) > 0:
            left = patience.left()
            if not left:
                return False
            select.select([self._display.fileno()], [], [], min(missing, left))
            if self._drain():
                quiet_at = time.monotonic() + quiet_ms / 1000
        return True

    def _idle(self, seconds: float) -> bool | None:
        """Whether nothing of the desktop wanted the processor, twice in a row, within that time. None as soon as
        anything is drawn: quiet begins anew."""
        patience, idle = Patience(seconds), 0
        while patience.left():
            idle = 0 if _busy() else idle + 1
            if idle == 2:
                return True
            select.select([self._display.fileno()], [], [], LOOK_MS / 1000 if not idle else 0.003)
            if self._drain():
                return None
        return False

    def _drain(self) -> bool:
        """Take in what was reported, and ask for the next report."""
        drawn = False
        while self._display.pending_events():
            self._display.next_event()
            drawn = True
        if drawn:
            self._display.damage_subtract(self._damage)
            self._display.flush()
        return drawn


def _busy() -> bool:
    """Whether a thread of this user, outside this process, runs, waits for a processor or for the disk."""
    mine, user = str(os.getpid()), os.getuid()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or entry.name == mine:
            continue
        try:
            if entry.stat().st_uid == user and _has_busy_thread(f"/proc/{entry.name}/task"):
                return True
        except OSError:
            continue  # it ended meanwhile
    return False


def _has_busy_thread(folder: str) -> bool:
    for thread in os.listdir(folder):
        try:
            with open(f"{folder}/{thread}/stat", "rb") as file:
                state = file.read(400).rpartition(b")")[2][1:2]
        except OSError:
            continue
        if state in (b"R", b"D"):
            return True
    return False


def _since(started: float) -> float:
    return (time.monotonic() - started) * 1000
