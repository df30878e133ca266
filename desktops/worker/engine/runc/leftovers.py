"""What a start, a restore or a saving that was broken off leaves: processes, mounts, control groups, files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from desktops.worker.engine.base import EngineError

GROUPS = Path("/sys/fs/cgroup")
END_SECONDS, LOOK_SECONDS = 10.0, 0.01


def end(root: Path, name: str) -> None:
    """All processes of that box, and of whoever works on it. Raises EngineError when something stays."""
    end_calls(root, name)
    thaw(name)  # CRIU stops what it saves, and nothing that is stopped can be killed
    end_group(name)


def end_calls(root: Path, name: str) -> None:
    """Kill runc where it still works on that box for a worker that is gone, and CRIU, its child."""
    wanted = {str(root).encode(), name.encode()}
    children: dict[int, list[int]] = {}
    calls = []
    for pid, parent, words in _processes():
        children.setdefault(parent, []).append(pid)
        if wanted <= words and any(Path(os.fsdecode(word)).name == "runc" for word in words):
            calls.append(pid)
    while calls:
        pid = calls.pop()
        calls += children.get(pid, [])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def thaw(name: str) -> None:
    """Let what is in its control group run on, where a saving was broken off."""
    for path, word in (
        (f"freezer/deskyard/{name}/freezer.state", "THAWED"),
        (f"deskyard/{name}/cgroup.freeze", "0"),
    ):
        with contextlib.suppress(OSError):  # there is no such group
            (GROUPS / path).write_text(word)


def end_group(name: str) -> None:
    """Kill all that is in the control group /deskyard/NAME, and remove it. Raises EngineError when something stays."""
    end = time.monotonic() + END_SECONDS
    while True:
        found = groups(name)
        live = {pid for group in found for pid in members(group)}
        for pid in live:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not live:
            break
        if time.monotonic() > end:
            raise EngineError(f"processes of the desktop {name[:8]} do not end")
        time.sleep(LOOK_SECONDS)
    for group in found:
        with contextlib.suppress(
            OSError
        ):  # its last process may still be on its way out; an empty one harms nobody
            group.rmdir()


def unmount_below(folder: Path) -> None:
    """Everything that is mounted there, the deepest first. Raises EngineError when something stays."""
    for point in _mounts(folder):
        subprocess.run(["umount", "--lazy", point], capture_output=True, check=False)
    left = _mounts(folder)
    if left:
        raise EngineError(f"{left[0]} stays mounted")


def remove(folder: Path) -> None:
    """Whatever is in it, however deep, but never what is mounted there. No error without it. Raises EngineError."""
    done = subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode and folder.exists():
        raise EngineError(f"{folder.name[:8]} cannot be removed: {done.stderr.strip()[-300:]}")


def _processes() -> Iterator[tuple[int, int, set[bytes]]]:
    """Process id, parent's id, and the words of the command."""
    for entry in list(os.scandir("/proc")):  # whole: an iterator left halfway stays open
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            yield int(entry.name), int(fields[1]), set(words)


def groups(name: str) -> list[Path]:
    """Where the control group /deskyard/NAME is: in each hierarchy, or in the one."""
    return [
        path for path in (GROUPS / "deskyard" / name, *GROUPS.glob(f"*/deskyard/{name}")) if path.is_dir()
    ]


def members(group: Path) -> Iterable[int]:
    try:
        return [int(line) for line in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []  # it went meanwhile


def _mounts(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point) for point in points]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)
