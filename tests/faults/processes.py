"""Programs of the rig: real child processes that can be killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from console.embedded.home import PROJECT
from console.embedded.processes import end_process, ending_with_parent

LOOK_SECONDS = 0.2
T = TypeVar("T")


def until(look: Callable[[], T], seconds: float, what: str = "it") -> T:
    """The first truthy value of `look`; AssertionError when there is none in time."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{what} did not come true in {seconds:g} s"
        time.sleep(LOOK_SECONDS)  # between two looks
    return found


class Program:
    """`python ARGUMENTS` with its own log. The kernel ends it should the tests be killed."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.name, self.log = name, log
        self._arguments, self._environment = arguments, environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ending_with_parent(signal.SIGKILL, [sys.executable, *self._arguments]),
                cwd=PROJECT,
                env={**os.environ, "PYTHONWARNINGS": "", **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process

    def kill(self) -> None:
        """As a power cut: no word, no clean-up."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """In order; the exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGCONT)
        return end_process(self._process, (signal.SIGTERM, signal.SIGKILL), seconds=40)

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")
