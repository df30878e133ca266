"""Waiting for processes to end, and making them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Its parent may have gone before the kernel was asked to watch it: then it must not begin.
_IF_PARENT_LIVES = '[ "$PPID" = "$0" ] && exec "$@"'


def ending_with_parent(number: signal.Signals, command: list[str], *privileges: str) -> list[str]:
    """The command, to which the kernel sends that signal when this process, or the thread that starts it, is gone.

    `privileges`: further options of setpriv(1), such as the account to run as.
    """
    watched = ["setpriv", "--pdeathsig", number.name.removeprefix("SIG"), *privileges, "--"]
    return [*watched, "sh", "-c", _IF_PARENT_LIVES, str(os.getpid()), *command]


def is_running(pid: int) -> bool:
    """False for a zombie too: nothing of it runs any longer."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pid: int, *, seconds: float) -> bool:
    """True when the process, not necessarily a child, ended within that time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def pids_in(folder: Path, program: str) -> list[int]:
    """The processes of this program that work in this folder, as far as this account may see."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "cwd").readlink() == folder and (entry / "comm").read_text().strip() == program:
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def end_process(
    process: subprocess.Popen[bytes], signals: Iterable[signal.Signals], *, seconds: float
) -> int:
    """Send each signal in turn until the child ends, `seconds` each; the exit code."""
    for number in signals:
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()
