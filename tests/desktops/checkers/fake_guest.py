"""A desktop made of dictionaries, for getters and setup steps whose own work is what a test is about."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from PIL import Image

from desktops.worker.guest_client import Completed, Entry, GuestFileMissing, GuestUnreachable, Settled, Window

Answer = Completed | Exception | str
Command = str | list[str]


class FakeGuest:
    """Answers like `Guest`; `commands` says what each command prints, `on_launch` what a launch changes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.commands: dict[str, Answer] = {}
        self.open: list[Window] = []
        self.tree = "<desktop-frame/>"
        self.ran: list[Command] = []
        self.launched: list[Command] = []
        self.settled: list[int] = []
        self.on_launch: Callable[[FakeGuest], None] = lambda guest: None
        self.gone = False

    def _there(self) -> None:
        if self.gone:
            raise GuestUnreachable("the desktop is gone")

    def run(self, command: Command, timeout: float = 60, **_: Any) -> Completed:
        self._there()
        self.ran.append(command)
        answer = self.commands.get(command if isinstance(command, str) else " ".join(command), "")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completed) else Completed(0, answer, "")

    def launch(self, command: Command, **_: Any) -> int:
        self._there()
        self.launched.append(command)
        self.on_launch(self)
        return 1

    def read_file(self, path: str) -> bytes:
        self._there()
        if path not in self.files:
            raise GuestFileMissing(path)
        return self.files[path]

    def write_file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        self._there()
        self.files[path] = data

    def exists(self, path: str) -> bool:
        self._there()
        return path in self.files or any(name.startswith(path + "/") for name in self.files)

    def list_dir(self, path: str) -> list[Entry]:
        self._there()
        below = [name.removeprefix(path + "/") for name in self.files if name.startswith(path + "/")]
        if not below:
            raise GuestFileMissing(path)
        kinds = {name.partition("/")[0]: "folder" if "/" in name else "file" for name in below}
        return [Entry(name, kind, 0) for name, kind in sorted(kinds.items())]  # type: ignore[arg-type]

    def windows(self) -> list[Window]:
        self._there()
        return list(self.open)

    def wait_window(self, title_part: str, seconds: float = 30) -> Window | None:
        return next((window for window in self.windows() if title_part in window.title), None)

    def activate(self, name: str, by_class: bool = False, strict: bool = False) -> bool:
        return any(name in (w.wm_class if by_class else w.title) for w in self.windows())

    def close(self, name: str, by_class: bool = False, strict: bool = False) -> bool:
        before = len(self.open)
        self.open = [w for w in self.windows() if name not in (w.wm_class if by_class else w.title)]
        return len(self.open) < before

    def settle(self, quiet_ms: int = 120, timeout_ms: int = 5000) -> Settled:
        self._there()
        self.settled.append(timeout_ms)
        return Settled(True, 1.0)

    def accessibility(self, max_nodes: int = 3000) -> str:
        self._there()
        return self.tree

    def screenshot(self) -> bytes:
        self._there()
        out = BytesIO()
        Image.new("RGB", (1920, 1080)).save(out, "PNG")
        return out.getvalue()


def window(title: str, wm_class: str, number: int = 1, *, active: bool = False) -> Window:
    return Window(number, title, wm_class, 0, 0, 800, 600, active, 0)
