"""The agent: its own calls under /deskyard, OSWorld's in-guest HTTP API beside them."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from . import shell
from .httpd import Handler, Refused, Reply, Request, json_reply, local_server, unix_server
from .input import Input
from .osworld import Osworld
from .patience import Patience
from .rest import Rest
from .screen import Screen
from .watchdog import Watchdog
from .windows import Windows

OSWORLD_PORT = 5000  # where OSWorld's own programs inside a desktop look
START_SECONDS = 60.0
ACCESSIBILITY_SECONDS = 50.0
MAX_ACCESSIBILITY_NODES = 20_000
# A `wait` action says by itself that something takes long. A large program's window is there while it still
# loads, drawing nothing; keys that come then are lost.
WAIT_QUIET_MS = 300
LOADING_MS = 10_000


class Desktop:
    """Everything that is on this desktop, once its X server answers."""

    def __init__(self, display: str) -> None:
        self.display = display
        self.screen = Screen(display)
        self.rest = Rest(display)
        self.windows = Windows(display)
        self.input = Input(display, self.rest.wait)

    def act(self, action: dict[str, Any]) -> None:
        """Carry out one action of the vocabulary; `done` and `fail` touch nothing."""
        kind = action["action"]
        hands: dict[str, Callable[[], None]] = {
            "click": lambda: self.input.click(
                action["x"], action["y"], action.get("button", "left"), action.get("keys")
            ),
            "double_click": lambda: self.input.double_click(
                action["x"], action["y"], action.get("button", "left")
            ),
            "move": lambda: self.input.move(action["x"], action["y"]),
            "drag": lambda: self.input.drag(
                action["x"], action["y"], action["to_x"], action["to_y"], action.get("button", "left")
            ),
            "scroll": lambda: self.input.scroll(
                action["x"], action["y"], action.get("dx", 0), action.get("dy", 0)
            ),
            "type": lambda: self.input.type(action["text"]),
            "key": lambda: self.input.press(action["keys"], action.get("times", 1)),
            "wait": lambda: self.wait(action.get("window", ""), action.get("seconds", 10)),
            "done": lambda: None,
            "fail": lambda: None,
        }
        if kind not in hands:
            raise Refused(f"no action is called {kind!r}")
        hands[kind]()

    def wait(self, window: str, seconds: float) -> None:
        """Until that window is active, if one is named, and then until the screen rests. Refused when it does not
        come."""
        patience = Patience(seconds)
        if window and self.windows.wait(window, seconds, active=True) is None:
            raise Refused(f"no window {window!r} became active in {seconds:g} s", status=408)
        left_ms = patience.left() * 1000
        longest_ms = min(left_ms, LOADING_MS) if window else left_ms
        self.rest.wait(WAIT_QUIET_MS, longest_ms, patience_ms=LOADING_MS)

    def accessibility(self, max_nodes: int) -> str:
        command = [sys.executable, "-m", "guest.accessibility", str(max_nodes)]
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "PYTHONPATH": root},
                capture_output=True,
                timeout=ACCESSIBILITY_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"the accessibility tree took over {ACCESSIBILITY_SECONDS:g} s") from error
        if done.returncode:
            raise RuntimeError(f"no accessibility tree: {done.stderr.decode(errors='replace')[-600:]}")
        return done.stdout.decode()


class Agent:
    """The calls under /deskyard. Until the X server answers, only `ready` does."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog = watchdog
        self._desktop: Desktop | None = None
        self._connected = threading.Event()
        self.problem = "the X server does not answer yet"

    def connect(self, display: str) -> None:
        """Wait for the X server; then the desktop is there."""
        end = time.monotonic() + START_SECONDS
        path = f"/tmp/.X11-unix/X{display.removeprefix(':')}"  # noqa: S108  (where X servers listen)
        while not _answers(path):
            if time.monotonic() > end:
                self.problem = f"no X server came up at {display} in {START_SECONDS:g} s"
                return
            time.sleep(0.01)
        try:
            self._desktop = Desktop(display)
        except Exception as error:
            self.problem = f"the X server cannot be used: {error}"
            raise
        self._connected.set()

    @property
    def desktop(self) -> Desktop:
        if not self._connected.wait(10) or self._desktop is None:
            raise Refused(self.problem, 503)
        return self._desktop

    def ready(self, request: Request) -> Reply:
        desktop = self._desktop
        parts = {
            "screen": desktop is not None,
            "window_manager": desktop is not None and bool(desktop.windows.manager()),
            "bus": _answers(os.environ["XDG_RUNTIME_DIR"] + "/bus"),
            "wallpaper": desktop is not None and desktop.windows.surroundings_drawn(),
        }
        missing = [name.replace("_", " ") for name, there in parts.items() if not there]
        if desktop is not None and not missing and request.query.get("at_rest") != "0":
            missing = [] if desktop.rest.wait(40, 400)[0] else ["a screen at rest"]
        detail = f"not there yet: {', '.join(missing)}" if missing else ""
        if desktop is None:
            detail = f"{detail} ({self.problem})"
        return json_reply({"ready": not missing, **parts, "detail": detail})

    def screenshot(self, request: Request) -> Reply:
        return Reply(self.desktop.screen.png(), "image/png")

    def act(self, request: Request) -> Reply:
        asked, desktop = request.json(), self.desktop
        started = time.monotonic()
        desktop.act(asked["action"])
        acted = time.monotonic()
        if asked["action"]["action"] in ("done", "fail"):
            settled, waited = True, 0.0
        else:
            settled, waited = desktop.rest.wait(asked["settle_ms"], asked["timeout_ms"])
        looking = time.monotonic()
        png = desktop.screen.png()
        look = {
            "act_ms": round((acted - started) * 1000, 3),
            "settle_ms": round(waited, 3),
            "grab_ms": round((time.monotonic() - looking) * 1000, 3),
            "settled": settled,
            "active_window": desktop.windows.active_title(),
        }
        return Reply(png, "image/png", headers={"X-Look": json.dumps(look)})

    def settle(self, request: Request) -> Reply:
        asked = request.json()
        settled, waited = self.desktop.rest.wait(asked["quiet_ms"], asked["timeout_ms"])
        return json_reply({"settled": settled, "settle_ms": round(waited, 3)})

    def accessibility(self, request: Request) -> Reply:
        nodes = min(int(request.query.get("max_nodes", 3000)), MAX_ACCESSIBILITY_NODES)
        return Reply(self.desktop.accessibility(nodes).encode(), "application/xml")

    def windows(self, request: Request) -> Reply:
        return json_reply({"windows": [window.document() for window in self.desktop.windows.present()]})

    def wait_window(self, request: Request) -> Reply:
        asked = request.json()
        found = self.desktop.windows.wait(asked["title"], asked["seconds"])
        return json_reply({"window": found.document() if found else None})

    def activate(self, request: Request) -> Reply:
        asked = request.json()
        found = self.desktop.windows.activate(asked["name"], asked["by_class"], asked["strict"])
        return json_reply({"found": found})

    def close(self, request: Request) -> Reply:
        asked = request.json()
        found = self.desktop.windows.close(asked["name"], asked["by_class"], asked["strict"])
        return json_reply({"found": found})

    def run(self, request: Request) -> Reply:
        asked = request.json()
        data = base64.b64decode(asked["input"]) if asked.get("input") is not None else None
        try:
            done = shell.run(
                asked["command"], float(asked["timeout"]), asked.get("cwd"), asked.get("env"), data
            )
        except OSError as error:
            raise Refused(f"cannot start it: {error}") from error
        return json_reply(
            {
                "returncode": done.returncode,
                "stdout": base64.b64encode(done.stdout).decode(),
                "stderr": base64.b64encode(done.stderr).decode(),
                "timed_out": done.timed_out,
            }
        )

    def launch(self, request: Request) -> Reply:
        asked = request.json()
        try:
            return json_reply({"pid": shell.launch(asked["command"], asked.get("cwd"), asked.get("env"))})
        except OSError as error:
            raise Refused(f"cannot start it: {error}") from error

    def read_file(self, request: Request) -> Reply:
        return Reply(shell.read(request.query["path"]))

    def write_file(self, request: Request) -> Reply:
        shell.write(request.query["path"], request.body, int(request.query.get("mode", "644"), 8))
        return json_reply({})

    def list_dir(self, request: Request) -> Reply:
        return json_reply({"entries": shell.entries(request.query["path"])})

    def exists(self, request: Request) -> Reply:
        return json_reply({"exists": shell.resolve(request.query["path"]).exists()})

    def keepalive(self, request: Request) -> Reply:
        return json_reply({})

    def paid_until(self, request: Request) -> Reply:
        at = request.json()["at"]
        self.watchdog.paid_until = None if at is None else float(at)
        return json_reply({})

    def silence_limit(self, request: Request) -> Reply:
        self.watchdog.silence_seconds = float(request.json()["seconds"])
        return json_reply({})

    def routes(self) -> dict[tuple[str, str], Handler]:
        own: dict[tuple[str, str], Handler] = {
            ("GET", "/ready"): self.ready,
            ("GET", "/screenshot"): self.screenshot,
            ("POST", "/act"): self.act,
            ("POST", "/settle"): self.settle,
            ("GET", "/accessibility"): self.accessibility,
            ("GET", "/windows"): self.windows,
            ("POST", "/wait_window"): self.wait_window,
            ("POST", "/activate"): self.activate,
            ("POST", "/close"): self.close,
            ("POST", "/run"): self.run,
            ("POST", "/launch"): self.launch,
            ("GET", "/file"): self.read_file,
            ("PUT", "/file"): self.write_file,
            ("GET", "/list"): self.list_dir,
            ("GET", "/exists"): self.exists,
            ("POST", "/keepalive"): self.keepalive,
            ("POST", "/paid_until"): self.paid_until,
            ("POST", "/silence_limit"): self.silence_limit,
        }
        return {(method, f"/deskyard{path}"): handler for (method, path), handler in own.items()}


def _answers(path: str) -> bool:
    """Whether something accepts connections at this unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _serve_inside(routes: dict[tuple[str, str], Handler]) -> None:
    """OSWorld's port on 127.0.0.1, when it is free: on the process engine it may be somebody else's."""
    try:
        server = local_server(OSWORLD_PORT, routes)
    except OSError as error:
        print(
            f"agent: nothing listens at 127.0.0.1:{OSWORLD_PORT} inside: {error}", file=sys.stderr, flush=True
        )
        return
    threading.Thread(target=server.serve_forever, name="inside", daemon=True).start()


def main() -> None:
    os.environ.pop("GLIBC_TUNABLES", None)
    os.environ.pop("PYTHONPATH", None)  # ours, not for the programs that are started here
    display = os.environ.get("DISPLAY", ":0")
    run = os.environ.get("DESKYARD_RUN", "/run/deskyard")
    paid_until = os.environ.get("DESKYARD_PAID_UNTIL")
    watchdog = Watchdog(
        int(os.environ["DESKYARD_SESSION"]),
        float(os.environ.get("DESKYARD_SILENCE_SECONDS", "60")),
        float(paid_until) if paid_until else None,
    )
    watchdog.start()
    agent = Agent(watchdog)
    osworld = Osworld(lambda: agent.desktop).routes()
    routes = {**osworld, **agent.routes()}
    _serve_inside(osworld)
    server = unix_server(f"{run}/agent.sock", routes, watchdog.heard)
    threading.Thread(target=agent.connect, args=(display,), name="connect", daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
