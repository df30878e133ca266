"""What the worker says to the guest agent inside one desktop, over the agent's unix socket.

Every call raises `GuestUnreachable` when the agent cannot be reached or talks nonsense: that is never a
verdict on a
task. A missing file is `GuestFileMissing`, a command that ran too long `GuestCommandTimeout`, and
whatever the agent
itself turns down (no such program, a folder where a file is meant) `GuestRefused`.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

from desktops.protocol.actions import Action

from .turns import Turns

# A factory gives a fresh connected socket; its argument is the time in seconds it may take.
Connect = Callable[[float], socket.socket]

PREFIX = "/deskyard"
# The guest waits longer on a machine with more to do than it has processors for, at most so many times
# (desktops.guest.patience).
SLOWEST = 5.0
MARGIN_SECONDS = 10.0  # what an answer may take beyond the work itself
IDLE_CONNECTIONS = 4
MOST_BYTES = 96 << 20  # the largest file in base64, and a little


class GuestError(Exception):
    """The guest agent did not do what was asked."""


class GuestUnreachable(GuestError):
    """The desktop's guest agent cannot be reached, does not answer in time, or answers nonsense."""


class GuestRefused(GuestError):
    """The guest agent answered that it cannot do this: the message says why."""


class GuestWaitedInVain(GuestRefused):
    """What the action waited for did not come in its time."""


class GuestFileMissing(GuestError):
    """There is no such file in the desktop."""


class GuestCommandTimeout(GuestError):
    """The command ran longer than allowed and was killed. `stdout` and `stderr` hold what it had printed."""

    def __init__(self, message: str, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


@dataclass(frozen=True)
class Readiness:
    """Which parts of a desktop answer. `detail` names what is missing, empty when all is there."""

    ready: bool
    screen: bool = False
    window_manager: bool = False
    bus: bool = False
    wallpaper: bool = False
    detail: str = ""

    def __bool__(self) -> bool:
        return self.ready

    @property
    def complete(self) -> bool:
        """Every part is there, even if the screen never rests: a task may begin with a film or a busy page."""
        return self.screen and self.window_manager and self.bus and self.wallpaper


@dataclass(frozen=True)
class Look:
    """The screen after an action: a PNG of 1920×1080 and what it took, in milliseconds."""

    png: bytes
    act_ms: float
    settle_ms: float
    grab_ms: float
    settled: bool
    active_window: str


@dataclass(frozen=True)
class Settled:
    """Whether the screen came to rest in time, and how long that was waited for."""

    settled: bool
    settle_ms: float

    def __bool__(self) -> bool:
        return self.settled


@dataclass(frozen=True)
class Window:
    """One top-level window. `wm_class` is "instance.Class"; geometry in screen pixels, without
    decorations.
    """

    id: int
    title: str
    wm_class: str
    x: int
    y: int
    width: int
    height: int
    active: bool
    pid: int


@dataclass(frozen=True)
class Completed:
    """A finished command; output decoded as UTF-8, what is not UTF-8 replaced. Killed by signal n:
    returncode −n.
    """

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Entry:
    """One name in a folder; `kind` is what it is after following links ("link" only if it leads nowhere)."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, connect: Connect, timeout: float) -> None:
        super().__init__("desktop", timeout=timeout)
        self._connect = connect

    def connect(self) -> None:
        self.sock = self._connect(float(self.timeout or MARGIN_SECONDS))


class Guest:
    """One desktop's agent. Threads may share it: each call uses a connection of its own from a small pool."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._idle: list[_UnixConnection] = []
        self._ended = False
        self._turns = Turns()

    # ── the screen and the hands ────────────────────────────────────────────────────────────────────────────

    def ready(self, at_rest: bool = True) -> Readiness:
        """Which parts of the desktop answer; true when all do and, unless that is of no matter, its screen rests.

        Raises GuestUnreachable until the agent is up.
        """
        return Readiness(**self._json("GET", f"/ready?at_rest={int(at_rest)}"))

    def screenshot(self) -> bytes:
        """The whole screen as PNG."""
        return self._call("GET", "/screenshot")[1]

    def act(self, action: Action, settle_ms: int = 120, timeout_ms: int = 5000) -> Look:
        """Carry out one action, wait until nothing has changed on screen for `settle_ms`, and look.

        The wait ends after `timeout_ms` at the latest, with `settled` false. One round trip. `done` and
        `fail` touch
        nothing; a `wait` action waits its own seconds.
        """
        seconds = SLOWEST * (getattr(action, "seconds", 0.0) + timeout_ms / 1000)
        headers, png = self._call(
            "POST",
            "/act",
            {"action": action.model_dump(), "settle_ms": settle_ms, "timeout_ms": timeout_ms},
            work_seconds=seconds,
        )
        try:
            return Look(png=png, **json.loads(headers["X-Look"]))
        except (TypeError, ValueError) as error:
            raise GuestUnreachable(f"the guest agent's answer to an action has no look: {error}") from error

    def settle(self, quiet_ms: int = 120, timeout_ms: int = 5000) -> Settled:
        """Wait until nothing has changed on screen for `quiet_ms`, at most `timeout_ms`."""
        body = {"quiet_ms": quiet_ms, "timeout_ms": timeout_ms}
        return Settled(**self._json("POST", "/settle", body, work_seconds=SLOWEST * timeout_ms / 1000))

    def accessibility(self, max_nodes: int = 3000) -> str:
        """The accessibility tree as XML, at most that many nodes; spreadsheet cells only those on screen."""
        path = "/accessibility?" + urlencode({"max_nodes": max_nodes})
        return self._call("GET", path, work_seconds=60)[1].decode()

    # ── windows ─────────────────────────────────────────────────────────────────────────────────────────────

    def windows(self) -> list[Window]:
        """Top-level windows, the one on top last. Panel and desktop are not among them."""
        return [Window(**window) for window in self._json("GET", "/windows")["windows"]]

    def active_window(self) -> Window | None:
        return next((window for window in self.windows() if window.active), None)

    def wait_window(self, title_part: str, seconds: float = 30) -> Window | None:
        """Wait until a window whose title or class contains that text is there; None when time runs out."""
        body = {"title": title_part, "seconds": seconds}
        found = self._json("POST", "/wait_window", body, work_seconds=SLOWEST * seconds)["window"]
        return Window(**found) if found else None

    def activate(self, title_or_class: str, by_class: bool = False, strict: bool = False) -> bool:
        """Raise and focus the first window that matches; false when none does. `strict` compares whole
        names.
        """
        body = {"name": title_or_class, "by_class": by_class, "strict": strict}
        return bool(self._json("POST", "/activate", body)["found"])

    def close(self, title_or_class: str, by_class: bool = False, strict: bool = False) -> bool:
        """Ask the first window that matches to close, as its close button does; false when none does."""
        body = {"name": title_or_class, "by_class": by_class, "strict": strict}
        return bool(self._json("POST", "/close", body)["found"])

    # ── commands and files ──────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        command: str | Sequence[str],
        timeout: float = 60,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,
    ) -> Completed:
        """Run a command to its end as the desktop's user: a list is an argv, a string goes to bash.

        Raises GuestCommandTimeout after `timeout` seconds, when it and its children have been killed.
        """
        stdin = input.encode() if isinstance(input, str) else input
        body = {
            "command": command if isinstance(command, str) else list(command),
            "timeout": timeout,
            "cwd": cwd,
            "env": dict(env or {}),
            "input": base64.b64encode(stdin).decode() if stdin is not None else None,
        }
        reply = self._json("POST", "/run", body, work_seconds=timeout)
        stdout = base64.b64decode(reply["stdout"]).decode(errors="replace")
        stderr = base64.b64decode(reply["stderr"]).decode(errors="replace")
        if reply["timed_out"]:
            raise GuestCommandTimeout(f"still running after {timeout:g} s: {command}", stdout, stderr)
        return Completed(reply["returncode"], stdout, stderr)

    def launch(
        self, command: str | Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> int:
        """Start a program and leave it running; gives its process id in the desktop."""
        body = {
            "command": command if isinstance(command, str) else list(command),
            "cwd": cwd,
            "env": dict(env or {}),
        }
        return int(self._json("POST", "/launch", body)["pid"])

    def read_file(self, path: str) -> bytes:
        return self._call("GET", "/file?" + urlencode({"path": path}), work_seconds=60)[1]

    def write_file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a whole file, making the folders above it."""
        query = urlencode({"path": path, "mode": f"{mode:o}"})
        self._call("PUT", "/file?" + query, data, work_seconds=60)

    def list_dir(self, path: str) -> list[Entry]:
        """Names in a folder, sorted. Raises GuestFileMissing when there is no such folder."""
        return [
            Entry(**entry) for entry in self._json("GET", "/list?" + urlencode({"path": path}))["entries"]
        ]

    def exists(self, path: str) -> bool:
        return bool(self._json("GET", "/exists?" + urlencode({"path": path}))["exists"])

    # ── the watchdog ────────────────────────────────────────────────────────────────────────────────────────

    def keepalive(self) -> None:
        """Tell the watchdog that somebody still owns this desktop. Any other call says so too."""
        self._json("POST", "/keepalive", {})

    def set_paid_until(self, at: datetime | None) -> None:
        """The desktop ends itself at that instant (by the clock it shares with its host); None takes it
        away.
        """
        self._json("POST", "/paid_until", {"at": at.timestamp() if at is not None else None})

    def set_silence_limit(self, seconds: float) -> None:
        """The desktop ends itself when nobody has spoken to its agent for that long."""
        self._json("POST", "/silence_limit", {"seconds": seconds})

    # ── connections ─────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing is connected meanwhile, and calls wait: only so can a live desktop be saved."""
        with self._turns.silence():
            self.disconnect()
            yield

    def disconnect(self) -> None:
        """Close every idle connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def end(self) -> None:
        """Close every connection for good: idle ones now, one in use with its call. Later calls find it unreachable."""
        with self._lock:
            self._ended = True
        self.disconnect()

    def _json(self, method: str, path: str, body: Any = None, *, work_seconds: float = 0) -> dict[str, Any]:
        raw = self._call(method, path, body, work_seconds=work_seconds)[1]
        try:
            reply = json.loads(raw)
        except ValueError as error:
            raise GuestUnreachable(f"the guest agent's answer to {path} is not JSON") from error
        if not isinstance(reply, dict):
            raise GuestUnreachable(f"the guest agent's answer to {path} is not an object")
        return reply

    def _call(
        self, method: str, path: str, body: Any = None, *, work_seconds: float = 0
    ) -> tuple[http.client.HTTPMessage, bytes]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        timeout = work_seconds + MARGIN_SECONDS
        with self._turns.speak():
            response, content = self._exchange(method, path, data, timeout)
        if response.status == 200:
            return response.headers, content
        raise _failure(response.status, content)

    def _exchange(
        self, method: str, path: str, data: bytes | None, timeout: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._take(timeout)
        try:
            connection.request(method, PREFIX + path, data, {"Content-Type": "application/octet-stream"})
            response = connection.getresponse()
            content = _read(response, time.monotonic() + timeout)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise GuestUnreachable(
                f"the guest agent does not answer ({method} {path.partition('?')[0]}: {_why(error)})"
            ) from error
        except BaseException:
            connection.close()
            raise
        self._give(connection)
        return response, content

    def _take(self, timeout: float) -> _UnixConnection:
        with self._lock:
            if self._ended:
                raise GuestUnreachable("the desktop has ended")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            return _UnixConnection(self._connect, timeout)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _give(self, connection: _UnixConnection) -> None:
        with self._lock:
            if not self._ended and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


def _read(response: http.client.HTTPResponse, end: float) -> bytes:
    """The whole reply, if it is of a bearable size and there in time: who answers may not be our agent."""
    parts, size = [], 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise http.client.HTTPException(f"a reply of more than {MOST_BYTES >> 20} MiB")
        if time.monotonic() > end:
            raise TimeoutError
    response.read()  # nothing is left of it; only this frees its connection for the next call
    return b"".join(parts)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


def _failure(status: int, content: bytes) -> GuestError:
    try:
        message = str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return GuestUnreachable(f"the guest agent answered {status} without a reason")
    if status == 404:
        return GuestFileMissing(message)
    if status == 408:
        return GuestWaitedInVain(message)
    if status in (400, 409, 422):
        return GuestRefused(message)
    return GuestUnreachable(f"the guest agent failed ({status}): {message}")


def wait_ready(
    guest: Guest,
    seconds: float,
    still_there: Callable[[], bool] = lambda: True,
    *,
    restored: bool = False,
    as_saved: bool = False,
) -> Readiness:
    """Ask until the whole desktop answers, at most `seconds`; ends early when `still_there` says it is gone.

    One that is `restored` was at rest before. One that somebody wants `as_saved` is ready with its screen: its panel
    may have been closed, or a film may play.
    """
    began = time.monotonic()
    end = began + seconds
    silent = Readiness(ready=False, detail="its agent does not answer")
    last = silent
    while time.monotonic() < end:
        try:
            last = guest.ready(at_rest=not restored)
        except GuestUnreachable:
            last = silent
        if as_saved and last.screen:
            return replace(last, ready=True)
        if last.ready or not still_there():
            return last
        # Between two probes, not instead of one; the longer it takes, the busier the machine that they would keep busy.
        time.sleep(min(max(0.02, 0.05 * (time.monotonic() - began)), 0.5))
    return last
