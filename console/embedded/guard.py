"""A small process that outlives `make up` when that is killed without a chance to end anything.

It reads from a pipe that only its parent holds: the ids of children as they start, and `done` at an orderly end.
When the pipe ends without that word, the kernel has already asked the children to end (see children). The guard
waits for them, kills what stays, and then stops the container engine's service, which they needed until then.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from .home import PROJECT, Home

DONE = "done"
PATIENCE_SECONDS = 40


class Guard:
    """The parent's end."""

    def __init__(self, home: Home) -> None:
        with (home.logs / "guard.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "console.embedded.guard"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=PROJECT,
                env={**os.environ, "DESKYARD_HOME": str(home.root)},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, pid: int) -> None:
        self._say(str(pid))

    def release(self) -> None:
        self._say(DONE)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()


def stand_by(home: Home) -> None:
    """The guard's own life."""
    handles: list[int] = []  # not ids: an id may belong to somebody else by then
    for line in sys.stdin:
        if line.strip() == DONE:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            handles.append(os.pidfd_open(int(line)))
    deadline = time.monotonic() + PATIENCE_SECONDS
    for handle in handles:
        if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    stop_engine_service(home)


def stop_engine_service(home: Home) -> None:
    """End the Podman service of this data folder, whoever started it, and its mounts."""
    folder: Path = home.root / "engine"
    if folder.exists():
        importlib.import_module("desktops.worker.engine.podman").PodmanService(folder).stop()


if __name__ == "__main__":
    stand_by(Home.from_environment())
