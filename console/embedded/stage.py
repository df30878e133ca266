"""What `make up` and `make test` have in common: the database, the container engine and the desktop
images."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .children import Child, Children
from .guard import Guard
from .home import PROJECT, AlreadyOwned, Home, owned
from .postgres import EmbeddedPostgres, PostgresFailed
from .processes import ending_with_parent
from .terminal import StepFailed, Terminal

Progress = Callable[[str], None]


class Ended(BaseException):
    """Somebody asked this process to end: Ctrl-C, SIGTERM, or its terminal was closed."""


class Stage:
    """Owns what it started and ends it in `close`, last first."""

    def __init__(self, home: Home, terminal: Terminal, environment: dict[str, str]) -> None:
        self.home, self.terminal = home, terminal
        self.environment = {**environment, **home.keys(), "DESKYARD_HOME": str(home.root)}
        self.children = Children(terminal.line)
        self.engine_sentence = ""
        self.images: dict[str, str] = {}  # name -> digest, of those that are there
        self._server: EmbeddedPostgres | None = None
        self._held = contextlib.ExitStack()

    def close(self) -> None:
        self.children.stop()
        self._held.close()

    def watch(self, seconds: float) -> None:
        """Wait, meanwhile keep the children going. Raises Ended when the terminal was closed."""
        self.children.watch(seconds)
        if self._server is not None and self._server.died():
            self.terminal.line("The database ended; starting it again.")
            self._start(self._server.restart)
        if self.terminal.was_closed():
            raise Ended("its terminal was closed")

    def database(self, *, durable: bool = True) -> None:
        """The server of DATABASE_URL where that is set, else the embedded one."""
        if self.environment.get("DATABASE_URL"):
            return
        server = EmbeddedPostgres(self.home, durable=durable)
        self._held.callback(server.stop)
        self._start(server.start)
        self._server = server
        for folder in server.opened:
            self.terminal.line(f"    {folder} may now be passed through by other users: PostgreSQL's has to.")
        self.environment["DATABASE_URL"] = server.url

    def _start(self, start: Callable[[], None]) -> None:
        try:
            start()
        except (PostgresFailed, OSError) as error:
            raise StepFailed(
                "Starting the database",
                str(error),
                f"Read {self.home.logs / 'postgres.log'}, or use a server of your own by DATABASE_URL.",
            ) from error

    def manage(self, step: str, *arguments: str) -> None:
        """Run manage.py to its end. Raises StepFailed with its last line."""
        done = subprocess.run(
            ending_with_parent(signal.SIGTERM, [sys.executable, "manage.py", *arguments]),
            cwd=PROJECT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            log = self.home.logs / f"{arguments[0]}.log"
            log.write_text(done.stdout + done.stderr)
            lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
            raise StepFailed(step, lines[-1].strip(), f"Read {log}, mend it, and run the same command again.")

    def engine(self) -> None:
        """A container engine, or the process engine where no container can run."""
        provision = importlib.import_module("desktops.worker.engine.provision")
        try:
            engine = provision.ensure_engine(self.home.root, self.terminal.progress)
        except provision.ProvisionError as error:
            raise StepFailed("Preparing the container engine", str(error), error.what_to_do) from error
        try:
            self._held.enter_context(owned(self.home.root / "engine.lock", {"pid": os.getpid()}))
        except AlreadyOwned:
            pass  # it belongs to a `make up` that is running, and ends with that
        else:
            self._hold_engine(engine)
        self.environment["DESKYARD_ENGINE"] = engine.address
        self.engine_sentence = engine.sentence
        for reason in engine.passed_over:
            self.terminal.line(f"    Not used: {reason}")

    def _hold_engine(self, engine: Any) -> None:
        guard = Guard(self.home)
        self._held.callback(guard.release)
        self._held.callback(engine.stop)
        self._held.callback(self._sweep, engine.address)
        self.children.on_launch = guard.watch

    def _sweep(self, address: str) -> None:
        """Remove the desktops that this folder's worker has left, in case it could not do so itself."""
        choose = importlib.import_module("desktops.worker.engine.choose")
        base = importlib.import_module("desktops.worker.engine.base")
        try:
            with contextlib.closing(choose.open_engine(address, self.home.root / "worker")) as engine:
                report = engine.sweep([])
        except base.EngineError as error:
            self.terminal.line(f"  Desktops may be left: {error}")
            return
        for reason in report.problems:
            self.terminal.line(f"  A desktop is left: {reason}")

    def _image_file(self, name: str) -> Path:
        return self.home.root / f"image-{name}.digest"

    def image(self, name: str, *, on_end: Callable[[int], None]) -> Child:
        """Build a desktop image in a process of its own, where it is missing. Ends by itself."""

        def ended(code: int) -> None:
            if code == 0:
                self.images[name] = self._image_file(name).read_text()
            on_end(code)

        child = Child(
            name=f"image {name}",
            command=[sys.executable, "-m", "console.embedded", "image", name, str(self._image_file(name))],
            environment=self.environment,
            log=self.home.logs / f"image-{name}.log",
            cwd=PROJECT,
            restart=False,
            on_end=ended,
        )
        child.log.write_text("")
        self.children.start(child)
        return child

    def image_now(self, name: str) -> None:
        """The same, waiting for it and showing how far it is."""
        codes: list[int] = []
        child = self.image(name, on_end=codes.append)
        while not codes:
            self.watch(0.5)
            if (words := child.last_words()) != "nothing":
                self.terminal.progress(words)
        if codes[0]:
            raise StepFailed(
                f"Building the desktop image {name}",
                child.last_words(),
                f"Read {child.log}, mend what it says, and run the same command again.",
            )


def build_image(name: str, address: str, result: Path, progress: Progress) -> None:
    """In the image's own process: build it where it is missing, and write its digest."""
    build: Any = importlib.import_module("desktops.images.build")
    provision: Any = importlib.import_module("desktops.worker.engine.provision")
    with contextlib.closing(provision.client(address)) as client:
        result.write_text(build.build(client, name, progress))


def end_on_signals() -> None:
    """Ctrl-C, SIGTERM and a closed terminal raise Ended once; while everything ends they are ignored."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        raise Ended(signal.Signals(number).name)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, handle)
