"""`make up`: from nothing to a console that has played its first test, and back to nothing on Ctrl-C."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable

from .api import Api, ApiError, answers
from .children import Child
from .home import PROJECT, AlreadyOwned, Home, owned
from .play import play_first_test
from .stage import Ended, Stage, end_on_signals
from .terminal import StepFailed, Terminal

HOST = "127.0.0.1"
CONSOLE_SECONDS = 60
FRAME_BYTES = 4 << 20
FIRST_IMAGE, NEXT_IMAGE = "basic", "office"


def up(home: Home, port: int, began: float) -> int:
    """Stays until it is asked to end. The exit code: 0 when it was up and ended in order.

    `began`: when preparing the machine did, as a Unix time."""
    terminal = Terminal()
    url = f"http://{HOST}:{port}"
    try:
        with owned(home.root / "up.lock", {"pid": os.getpid(), "url": url}):
            return _Up(home, terminal, port, url).run(began)
    except AlreadyOwned as other:
        where = other.owner.get("url", "starting now")
        terminal.line(f"Deskyard is already up: {where} (process {other.owner.get('pid', 'unknown')}).")
        terminal.line(f"  Data folder {home.root}. End it with Ctrl-C there or with: make down")
        return 1


def took(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class _Up:
    def __init__(self, home: Home, terminal: Terminal, port: int, url: str) -> None:
        self.home, self.terminal, self.port, self.url = home, terminal, port, url
        home.create()
        environment = {**os.environ, "DESKYARD_PORT": str(port), "PYTHONUNBUFFERED": "1"}
        environment.setdefault("DESKYARD_PUBLIC_URL", url)
        self.stage = Stage(home, terminal, environment)
        self._building: Child | None = None

    def run(self, began: float) -> int:
        steps: list[tuple[str, Callable[[], None]]] = [
            ("Port", self._port_is_free),
            ("Database", self.stage.database),
            ("Container engine", self.stage.engine),
            (f"Desktop image {FIRST_IMAGE}", lambda: self.stage.image_now(FIRST_IMAGE)),
            ("Tables and demo workspace", self._demo),
            ("Console", self._console),
            ("Supervisor and worker", self._supervisor_and_worker),
        ]
        end_on_signals()
        code = 1
        try:
            for name, step in steps:
                with self.terminal.step(name):
                    step()
            self._tell(time.time() - began)
            code = 0
            self._next_image()
            self._first_test()
            while True:
                self._watch(2)
        except StepFailed as failure:
            self.terminal.failed(failure)
            code = 1
        except Ended as asked:
            self.terminal.line()
            self.terminal.line(f"Ending ({asked}) …")
        finally:
            self.stage.close()
            self.terminal.line("Everything has ended." if code == 0 else "Nothing is left running.")
        return code

    def _port_is_free(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise StepFailed(
                    "Taking the port",
                    f"{HOST}:{self.port} cannot be used: {error.strerror}",
                    f"End what uses it, or choose another: DESKYARD_PORT={self.port + 1} make up",
                ) from error

    def _demo(self) -> None:
        images = [f"--image={name}={digest}" for name, digest in self.stage.images.items()]
        self.stage.manage("Making the demo workspace", "demo", "--migrate", "--url", self.url, *images)

    def _console(self) -> None:
        daphne = [sys.executable, "-m", "daphne", "-b", HOST, "-p", str(self.port)]
        # Above what the worker's door takes, so that an oversized frame is refused in words and not cut off.
        daphne += [f"--websocket-max-{what}-size={FRAME_BYTES}" for what in ("message", "frame")]
        self._child("console", [*daphne, "console.asgi:application"])
        deadline = time.monotonic() + CONSOLE_SECONDS
        while not answers(self.url):
            self.stage.children.watch(0.1)
            if time.monotonic() > deadline:
                log = self.home.logs / "console.log"
                raise StepFailed("Starting the console", f"no answer in {CONSOLE_SECONDS} s", f"Read {log}.")

    def _supervisor_and_worker(self) -> None:
        self._child("supervisor", [sys.executable, "manage.py", "supervise"])
        self._child(
            "worker",
            [sys.executable, "-m", "desktops.worker"],
            extra={
                "DESKYARD_URL": self.url,
                "DESKYARD_WORKER_TOKEN_FILE": str(self.home.worker_token),
                "DESKYARD_WORKER_HOME": str(self.home.root / "worker"),
            },
            end_seconds=30,
        )

    def _child(
        self, name: str, command: list[str], *, extra: dict[str, str] | None = None, end_seconds: float = 10
    ) -> None:
        environment = {**self.stage.environment, **(extra or {})}
        log = self.home.logs / f"{name}.log"
        self.stage.children.start(Child(name, command, environment, log, PROJECT, end_seconds))

    def _tell(self, seconds: float) -> None:
        email = json.loads(self.home.demo.read_text())["email"]
        say = self.terminal.line
        say()
        say(f"Deskyard is up: {self.url} (after {took(seconds)})")
        say(f"  Sign in as  {email}; password and API token: {self.home.demo}")
        say(f"  Desktops    {self.stage.engine_sentence}")
        say(f"  Logs        {self.home.logs}")
        say("  End         Ctrl-C")
        say()

    def _next_image(self) -> None:
        say = self.terminal.line

        def ended(code: int) -> None:
            self._building = None
            if code == 0:
                self._demo()
                say(f"The desktop image {NEXT_IMAGE} is ready.")
            else:
                say(f"The desktop image {NEXT_IMAGE} was not built: {child.last_words()}")
                say(f"  The rest goes on without it. Read {child.log}, then run make up again.")

        child = self._building = self.stage.image(NEXT_IMAGE, on_end=ended)

    def _watch(self, seconds: float) -> None:
        self.stage.watch(seconds)
        if self._building is not None and (words := self._building.last_words()) != "nothing":
            self.terminal.progress(words)

    def _first_test(self) -> None:
        demo = json.loads(self.home.demo.read_text())
        try:
            for line in play_first_test(Api(self.url, demo["token"]), FIRST_IMAGE, self._watch):
                self.terminal.line(line)
        except ApiError as error:
            self.terminal.line(f"The first test could not be played: {error}")
            self.terminal.line(f"  The console stays up. Read {self.home.logs / 'console.log'}.")
