"""`make worker`: another worker host. Engine, images and one worker for a console that runs elsewhere."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .children import Child
from .home import PROJECT, AlreadyOwned, Home, owned
from .stage import Ended, Stage, end_on_signals
from .terminal import StepFailed, Terminal

IMAGES = ("basic", "office")
OF_THE_CONSOLE: Final = re.compile(r"\S+ \S+ (?:INFO|WARNING|ERROR) (connected to .*|.*\bthe console\b.*)")


def work(home: Home) -> int:
    """Stays until it is asked to end. The exit code: 0 when it worked and ended in order."""
    terminal = Terminal()
    if not os.environ.get("DESKYARD_URL") or not (
        os.environ.get("DESKYARD_WORKER_TOKEN") or os.environ.get("DESKYARD_WORKER_TOKEN_FILE")
    ):
        terminal.line("Say which console, and as whom: make worker DESKYARD_URL=https://… with")
        terminal.line("DESKYARD_WORKER_TOKEN in the environment. The console's Tokens page makes one.")
        return 2
    try:
        with owned(home.root / "up.lock", {"pid": os.getpid(), "url": os.environ["DESKYARD_URL"]}):
            return _run(home, terminal)
    except AlreadyOwned as other:
        terminal.line(
            f"A console or worker of this data folder is up already: process {other.owner.get('pid')}."
        )
        return 1


class News:
    """What a worker's log says of the console from now on, each thing once in a row: whether it is connected, and why
    not."""

    def __init__(self, log: Path) -> None:
        self._log, self._last = log, ""
        self._read = log.stat().st_size if log.exists() else 0

    def more(self) -> list[str]:
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._read)
            lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()  # still being written
        self._read += sum(map(len, lines))
        found = []
        for line in lines:
            said = OF_THE_CONSOLE.fullmatch(line.decode(errors="replace").rstrip())
            if said and said[1] != self._last:
                self._last = said[1]
                found.append(said[1])
        return found


def _run(home: Home, terminal: Terminal) -> int:
    home.create()
    worker_home = str(home.root / "worker")
    stage = Stage(
        home, terminal, {**os.environ, "PYTHONUNBUFFERED": "1", "DESKYARD_WORKER_HOME": worker_home}
    )
    steps: list[tuple[str, Callable[[], None]]] = [("Container engine", stage.engine)]
    steps += [(f"Desktop image {name}", lambda name=name: stage.image_now(name)) for name in IMAGES]  # type: ignore[misc]
    end_on_signals()
    try:
        for name, step in steps:
            with terminal.step(name):
                step()
        command = [sys.executable, "-m", "desktops.worker"]
        log = home.logs / "worker.log"
        news = News(log)
        stage.children.start(Child("worker", command, stage.environment, log, PROJECT, end_seconds=30))
        terminal.line(f"The worker dials {os.environ['DESKYARD_URL']}. Its log: {log}. End it with Ctrl-C.")
        while True:
            stage.watch(2)
            for said in news.more():
                terminal.line(f"  {said}")
    except StepFailed as failure:
        terminal.failed(failure)
        return 1
    except Ended as asked:
        terminal.line(f"Ending ({asked}) …")
        return 0
    finally:
        stage.close()
