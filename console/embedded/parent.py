"""Ending with make, our parent: when it is gone, and when it alone was told to stop.

On SIGINT to its own process only (not to the terminal's group), make passes nothing on: it waits for its children to
end by themselves. What shows it is that it has given its handler of that signal back by then.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5


def end_with_parent() -> None:
    """SIGTERM for this process when its parent is gone without a word, SIGINT when the parent was interrupted."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    parent = os.getppid()
    if _catches_interrupts(parent):
        threading.Thread(target=_follow, args=(parent,), name="parent", daemon=True).start()


def _catches_interrupts(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGINT - 1) & 1)


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        if not _catches_interrupts(parent):
            os.kill(os.getpid(), signal.SIGINT)
            return
        time.sleep(
            LOOK_SECONDS
        )  # there is nothing to wait on: the kernel tells nobody of a change of handlers
