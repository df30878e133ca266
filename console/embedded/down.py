"""`make down`: end a `make up` that runs elsewhere, in order, and wait until it has."""

from __future__ import annotations

import os
import signal

from .home import Home, is_owned, owner_of
from .processes import wait_for_end
from .terminal import Terminal

SECONDS = 90


def down(home: Home) -> int:
    """The exit code: 0 when nothing is up afterwards."""
    terminal = Terminal()
    lock = home.root / "up.lock"
    if not is_owned(lock):
        terminal.line(f"Nothing is up in {home.root}.")
        return 0
    pid = owner_of(lock).get("pid")
    if not isinstance(pid, int):
        terminal.line("It is just starting; try again in a moment.")
        return 1
    os.kill(pid, signal.SIGTERM)
    if not wait_for_end(pid, seconds=SECONDS):
        terminal.line(f"Process {pid} has not ended in {SECONDS} s. Read the logs in {home.logs}.")
        return 1
    terminal.line("Deskyard has ended.")
    return 0


def running_at(home: Home) -> str | None:
    """The address that the owner of this data folder serves or will serve; None when nothing is up."""
    lock = home.root / "up.lock"
    return owner_of(lock).get("url") if is_owned(lock) else None
