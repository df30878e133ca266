"""The children of `make up`: started in order, watched, started again when one dies, ended in reverse order.

Each is in a session of its own, so that Ctrl-C reaches only their parent, which then ends them in order; and
each gets SIGTERM from the kernel when the parent is gone without a word.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .processes import end_process, ending_with_parent
from .terminal import StepFailed

LOG_BYTES = 10 << 20  # a longer log becomes NAME.log.1
DEATHS = 5  # within DEATHS_SECONDS: then there is no point in starting it again
DEATHS_SECONDS = 60.0


@dataclass
class Child:
    """`end_seconds`: how long it may take after SIGTERM before it is killed, with all of its session.

    `restart=False` is for work that ends by itself; `on_end` gets its exit code then.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    cwd: Path
    end_seconds: float = 10
    restart: bool = True
    on_end: Callable[[int], None] | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    deaths: list[float] = field(default_factory=list, init=False)
    start_at: float = field(default=0, init=False)

    def last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else "nothing"


class Children:
    """Use from one thread, the one that lives as long as the process: the kernel watches that thread."""

    def __init__(self, say: Callable[[str], None], on_launch: Callable[[int], None] | None = None) -> None:
        self._say = say
        self.on_launch = on_launch  # gets the process id of each child as it starts
        self._all: list[Child] = []

    def start(self, child: Child) -> None:
        self._all.append(child)
        self._launch(child)

    def alive(self, name: str) -> bool:
        return any(c.name == name and c.process and c.process.poll() is None for c in self._all)

    def watch(self, seconds: float) -> None:
        """Wait that long, meanwhile start again what dies. Raises StepFailed for what keeps dying."""
        deadline = time.monotonic() + seconds
        while True:
            self._start_due()
            now = time.monotonic()
            waiting = [c.start_at for c in self._all if c.process is None and c.start_at]
            until = min([deadline, *waiting])
            self._wait_for_a_death(max(0.0, until - now))
            for child in list(self._all):
                if child.process is not None and (code := child.process.poll()) is not None:
                    self._ended(child, code)
                rotate(child.log)
            if time.monotonic() >= deadline:
                return

    def stop(self) -> None:
        """End all, the last started first; each is given its time, then killed with what it started."""
        for child in reversed(self._all):
            self._end(child)
        self._all.clear()

    def _end(self, child: Child) -> None:
        if child.process is None:
            return
        end_process(child.process, (signal.SIGTERM, signal.SIGKILL), seconds=child.end_seconds)
        _kill_session(child.process.pid)

    def _launch(self, child: Child) -> None:
        child.log.parent.mkdir(parents=True, exist_ok=True)
        rotate(child.log)
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                ending_with_parent(signal.SIGTERM, child.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child.environment,
                cwd=child.cwd,
                start_new_session=True,
            )
        child.start_at = 0
        if self.on_launch is not None:
            self.on_launch(child.process.pid)

    def _start_due(self) -> None:
        for child in self._all:
            if child.process is None and child.start_at and child.start_at <= time.monotonic():
                self._launch(child)

    def _wait_for_a_death(self, seconds: float) -> None:
        handles = [
            os.pidfd_open(c.process.pid) for c in self._all if c.process and c.process.returncode is None
        ]
        try:
            select.select(handles, [], [], seconds)
        finally:
            for handle in handles:
                os.close(handle)

    def _ended(self, child: Child, code: int) -> None:
        assert child.process is not None
        _kill_session(child.process.pid)
        child.process = None
        if not child.restart:
            self._all.remove(child)
            if child.on_end:
                child.on_end(code)
            return
        now = time.monotonic()
        child.deaths = [at for at in child.deaths if now - at < DEATHS_SECONDS] + [now]
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        if len(child.deaths) >= DEATHS:
            raise StepFailed(
                child.name,
                f"it {how}, for the {len(child.deaths)}th time in a minute. Last words: {child.last_words()}",
                f"Read {child.log}, mend what it says, and run make up again.",
            )
        self._say(f"The {child.name} {how}; starting it again. Its log: {child.log}")
        child.start_at = now + 0.25 * 2 ** len(child.deaths)


def rotate(log: Path) -> None:
    """Keep one older part. The writer goes on in the same file: it was opened for appending."""
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return
    log.with_name(log.name + ".1").write_bytes(log.read_bytes())
    os.truncate(log, 0)


def _kill_session(leader: int) -> None:
    """Whatever the child left running in its process group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
