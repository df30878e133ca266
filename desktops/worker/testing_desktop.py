"""An engine in memory whose desktops answer the guest client, for tests of everything above a real desktop.

A fake desktop has files and takes actions: typed text ends up in /home/user/typed.txt, `cat PATH` reads a file back.
It can be told to die, to fall silent or to be slow at any point of an attempt.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Container
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from PIL import Image as Picture

from .attest import LOOK
from .engine.base import (
    Desk,
    DeskSpec,
    DeskState,
    Door,
    EngineError,
    EngineFacts,
    Image,
    ImageMissing,
    OwnedDesk,
    SavedState,
    StateMissing,
    SweepReport,
    warm_state,
)

SERVER_INIT = struct.pack(">HHBBBBHHHBBB3xI4s", 1920, 1080, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0, 4, b"Fake")
TYPED = "/home/user/typed.txt"
IMAGE = Image("basic", 1, "sha256:" + "0" * 64)
COLOURS = [(r, g, b) for r in (40, 140, 230) for g in (40, 140, 230) for b in (40, 140, 230)]


class FakeDesk:
    """`on_call` hears each path before it is answered and may break the desktop there."""

    def __init__(self, spec: DeskSpec, on_call: Callable[[FakeDesk, str], None]) -> None:
        self.spec = spec
        self.computer = spec.computer
        self.ref = f"fake-{spec.computer[:8]}"
        self.image_id = spec.image
        self.restored = False
        self.processes = ["Xvnc", "openbox"]
        self.started_at = datetime.now(UTC)
        self.files: dict[str, bytes] = {}
        self.actions: list[dict[str, Any]] = []
        self.paid_until: float | None = spec.paid_until.timestamp() if spec.paid_until else None
        self.silent = False
        self.empty = False
        self.restless_ms = 0.0  # how long a wait for rest lasts in vain
        self.heard = bytearray()  # of RFB messages, after the handshake
        self.gone = False
        self._on_call = on_call
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()

    def set_paid_until(self, at: datetime) -> None:
        self.paid_until = at.timestamp()

    def state(self) -> DeskState:
        return "gone" if self.gone else "running"

    def connect(self, timeout: float, door: Door = "agent") -> socket.socket:
        if self.gone or self.silent:
            raise ConnectionRefusedError("nobody listens in this desktop")
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout)
        with self._lock:
            self._ends.add(theirs)
        serve = self._serve if door == "agent" else self._show
        threading.Thread(target=serve, args=(theirs,), name=self.ref, daemon=True).start()
        return ours

    def logs(self) -> str:
        return ""

    def copy(self, other: FakeDesk) -> None:
        """Have its files, screen and processes."""
        self.files, self.actions = dict(other.files), list(other.actions)
        self.processes = list(other.processes)

    def die(self) -> None:
        """As when the container is killed: every connection breaks."""
        self.gone = True
        self._break()

    def fall_silent(self) -> None:
        """As when the guest agent is killed and the desktop lives on."""
        self.silent = True
        self._break()

    def show_no_window(self) -> None:
        """As when a program does not come up: whoever waits for its window waits in vain."""
        self.empty = True

    def _break(self) -> None:
        with self._lock:
            for end in self._ends:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # closed by its own thread a moment ago

    def _serve(self, end: socket.socket) -> None:
        try:
            _Handler(end, self)
        except OSError:
            return  # the desktop broke off in the middle, as asked
        finally:
            with self._lock:
                self._ends.discard(end)
            end.close()

    def _show(self, end: socket.socket) -> None:
        """The screen: RFB's handshake, then every message that comes is kept, and none is answered."""
        try:
            for said, length in ((b"RFB 003.008\n", 12), (b"\x01\x01", 1), (bytes(4), 1), (SERVER_INIT, 0)):
                end.sendall(said)
                if length and len(end.recv(length, socket.MSG_WAITALL)) < length:
                    return
            while heard := end.recv(65536):
                self.heard += heard
        except OSError:
            return
        finally:
            with self._lock:
                self._ends.discard(end)
            end.close()

    # ── what the agent answers ───────────────────────────────────────────────────────────────────────────────

    def answer(
        self, method: str, path: str, query: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        self._on_call(self, path)
        if self.gone or self.silent:
            raise ConnectionResetError
        if path == "/screenshot":
            return 200, self.screen(), {}
        if path == "/file":
            return self._file(method, query["path"], body)
        sent = json.loads(body) if body else {}
        if path == "/act" and self.empty and sent["action"].get("window"):
            return 408, json.dumps({"error": "no window became active"}).encode(), {}
        if path == "/act":
            self._act(sent["action"])
            look = {"act_ms": 1.0, "grab_ms": 1.0, "active_window": "Fake"} | self._rest()
            return 200, self.screen(), {"X-Look": json.dumps(look)}
        if path == "/settle":
            return 200, json.dumps(self._rest()).encode(), {}
        if path == "/paid_until":
            self.paid_until = sent["at"]
        if path == "/silence_limit":
            self.silence_limit = sent["seconds"]
        if path == "/run":
            return self._run(sent["command"])
        return 200, json.dumps(_PLAIN.get(path, {})).encode(), {}

    def _rest(self) -> dict[str, Any]:
        return {"settled": not self.restless_ms, "settle_ms": self.restless_ms or 2.0}

    def screen(self) -> bytes:
        """A flat picture, of another colour after each action."""
        out = io.BytesIO()
        colour = COLOURS[len(self.actions) % len(COLOURS)]
        Picture.new("RGB", (1920, 1080), colour).save(out, "PNG", compress_level=1)
        return out.getvalue()

    def _act(self, action: dict[str, Any]) -> None:
        self.actions.append(action)
        if action["action"] == "type":
            self.files[TYPED] = self.files.get(TYPED, b"") + action["text"].encode()

    def _file(self, method: str, path: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        if method == "PUT":
            self.files[path] = body
            return 200, b"", {}
        if path in self.files:
            return 200, self.files[path], {}
        return 404, json.dumps({"error": f"no such file: {path}"}).encode(), {}

    def _run(self, command: str | list[str]) -> tuple[int, bytes, dict[str, str]]:
        words = command.split() if isinstance(command, str) else command
        if words[-1] == LOOK:
            return self._looked_at()
        found = self.files.get(words[-1]) if words[0] == "cat" else b""
        return _completed(0 if found is not None else 1, found or b"")

    def _looked_at(self) -> tuple[int, bytes, dict[str, str]]:
        files = hashlib.sha256(repr(sorted(self.files.items())).encode()).hexdigest()
        seen = {"processes": sorted(self.processes), "files": files}
        return _completed(0, json.dumps(seen).encode())


def _completed(returncode: int, stdout: bytes) -> tuple[int, bytes, dict[str, str]]:
    reply = {
        "returncode": returncode,
        "stdout": base64.b64encode(stdout).decode(),
        "stderr": "",
        "timed_out": False,
    }
    return 200, json.dumps(reply).encode(), {}


_PLAIN: dict[str, Any] = {
    "/ready": {"ready": True, "screen": True, "window_manager": True, "bus": True, "wallpaper": True},
    "/windows": {"windows": []},
    "/wait_window": {"window": None},
    "/activate": {"found": False},
    "/close": {"found": False},
    "/exists": {"exists": False},
    "/list": {"entries": []},
    "/launch": {"pid": 1},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, end: socket.socket, desk: FakeDesk) -> None:
        self._desk = desk
        super().__init__(end, ("desktop", 0), cast(Any, None))

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = parts.path.removeprefix("/deskyard")
        status, content, headers = self._desk.answer(self.command, path, query, body)
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a test reads the records instead."""


class FakeEngine:
    """`on_call(desk, path)` runs before each answer; `refuse_removals` makes that many removals fail first."""

    def __init__(self, *, slots: int = 4, owner: str = "fake") -> None:
        self.owner = owner
        self.slots = slots
        self.desks: dict[str, FakeDesk] = {}
        self.made: list[FakeDesk] = []
        self.refuse_removals = 0
        self.on_call: Callable[[FakeDesk, str], None] = lambda desk, path: None
        self._lock = threading.Lock()

    def probe(self) -> EngineFacts:
        return EngineFacts(
            name="fake",
            version="1",
            isolation="Nothing runs: desktops are made up.",
            can_fork=False,
            cannot_fork_because="there is nothing to fork",
            slots=self.slots,
            cpus=1,
            memory_mb=1024,
        )

    def images(self) -> list[Image]:
        return [IMAGE]

    def create(self, spec: DeskSpec) -> Desk:
        if spec.image not in {image.digest for image in self.images()}:
            raise ImageMissing(f"there is no image {spec.image}")
        with self._lock:
            desk = FakeDesk(spec, lambda desk, path: self.on_call(desk, path))
            self.desks[spec.computer] = desk
            self.made.append(desk)
        return desk

    def find(self, computer: str) -> Desk | None:
        return self.desks.get(computer)

    def remove(self, desk: Desk) -> datetime:
        with self._lock:
            if self.refuse_removals > 0:
                self.refuse_removals -= 1
                raise EngineError("the engine is busy")
            found = self.desks.pop(desk.computer, None)
        if found is not None:
            found.die()
        return datetime.now(UTC)

    def list_owned(self) -> list[OwnedDesk]:
        return [OwnedDesk(desk.ref, desk.computer, desk.state()) for desk in list(self.desks.values())]

    def sweep(self, keep: Container[str]) -> SweepReport:
        orphans = [desk for desk in list(self.desks.values()) if desk.computer not in keep]
        for desk in orphans:
            self.remove(desk)
        return SweepReport(datetime.now(UTC), [desk.computer for desk in orphans], [], [])

    def close(self) -> None:
        """Nothing to let go of."""


class FakeSavingEngine(FakeEngine):
    """Saved desktops keep files, actions and processes. `refuse_saves` makes that many fail first."""

    def __init__(self, *, slots: int = 4, owner: str = "fake", state_bytes: int = 100 << 20) -> None:
        super().__init__(slots=slots, owner=owner)
        self.saved: dict[str, tuple[SavedState, FakeDesk]] = {}
        self.state_bytes = state_bytes
        self.made_images: list[Image] = []
        self.refuse_saves = 0

    def probe(self) -> EngineFacts:
        return replace(super().probe(), can_fork=True, cannot_fork_because="")

    def create(self, spec: DeskSpec) -> Desk:
        state = spec.state or warm_state(spec.image)
        if spec.state and state not in self.saved:
            raise StateMissing(f"the saved desktop {state} is not on this machine")
        super().create(spec)
        desk = self.desks[spec.computer]
        if state in self.saved:
            about, parent = self.saved[state]
            self.saved[state] = (replace(about, used_at=datetime.now(UTC)), parent)
            desk.restored, desk.paid_until, desk.silence_limit = True, parent.paid_until, parent.silence_limit
            desk.copy(parent)
        return desk

    def save(self, desk: Desk, name: str, *, resume: bool) -> SavedState:
        with self._lock:
            if self.refuse_saves > 0:
                self.refuse_saves -= 1
                raise EngineError("the checkpoint failed")
        ours = self.desks[desk.computer]
        kept = FakeDesk(ours.spec, lambda desk, path: None)
        kept.copy(ours)
        kept.paid_until, kept.silence_limit = ours.paid_until, ours.silence_limit
        digest = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
        state = SavedState(
            name, digest, self.state_bytes, ours.image_id, ours.image_id, made_at=datetime.now(UTC)
        )
        self.saved[name] = (state, kept)
        if not resume:
            ours.die()
        return state

    def make_image(self, desk: Desk, name: str, version: int) -> Image:
        """Nothing is made but its name: a desktop of it starts like any."""
        files = sorted(self.desks[desk.computer].files.items())
        image = Image(name, version, f"sha256:{hashlib.sha256(repr(files).encode()).hexdigest()}")
        self.made_images.append(image)
        return image

    def forget_image(self, digest: str) -> None:
        self.made_images = [image for image in self.made_images if image.digest != digest]

    def images(self) -> list[Image]:
        return [IMAGE, *self.made_images]

    def states(self) -> list[SavedState]:
        return [state for state, _ in list(self.saved.values())]

    def forget(self, name: str) -> None:
        self.saved.pop(name, None)


def slow(seconds: float, path: str = "/act") -> Callable[[FakeDesk, str], None]:
    """For `on_call`: answers on `path` take that long, as a busy desktop's do."""

    def wait(desk: FakeDesk, called: str) -> None:
        if called == path:
            time.sleep(seconds)

    return wait
