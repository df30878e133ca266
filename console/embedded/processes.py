"""Waiting for processes to end, and making them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path


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
