"""Top-level windows, by the window manager's own properties (EWMH)."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from Xlib import X, Xatom
from Xlib.display import Display
from Xlib.error import BadDrawable, BadMatch, BadWindow
from Xlib.protocol.event import ClientMessage
from Xlib.xobject.drawable import Window as XWindow

from .patience import Patience

FROM_PAGER = 2  # source indication: a person asked for it, so focus-stealing rules do not apply
OBEYED_SECONDS = 1.0
POLL_SECONDS = 0.01
GONE = (BadWindow, BadDrawable, BadMatch)


@dataclass(frozen=True)
class Window:
    id: int
    title: str
    wm_class: str
    x: int
    y: int
    width: int
    height: int
    active: bool
    pid: int

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Windows:
    def __init__(self, display: str) -> None:
        self._display = Display(display)
        self._root = self._display.screen().root
        self._lock = threading.Lock()
        self._atoms: dict[str, int] = {}

    def manager(self) -> str:
        """Name of the running window manager, empty when there is none."""
        with self._lock:
            check = self._number(self._root, "_NET_SUPPORTING_WM_CHECK")
            if not check:
                return ""
            try:
                return self._text(self._display.create_resource_object("window", check), "_NET_WM_NAME")
            except GONE:
                return ""

    def surroundings_drawn(self) -> bool:
        """Whether the windows that show wallpaper with icons, and the panel, are there."""
        kinds = ("_NET_WM_WINDOW_TYPE_DESKTOP", "_NET_WM_WINDOW_TYPE_DOCK")
        with self._lock:
            return all(any(self._is_type(window, kind) for window in self._clients()) for kind in kinds)

    def present(self) -> list[Window]:
        """The windows people work with, the one on top last."""
        with self._lock:
            active = self._number(self._root, "_NET_ACTIVE_WINDOW")
            found = []
            for window in self._clients():
                try:
                    if not self._is_type(window, "_NET_WM_WINDOW_TYPE_DESKTOP", "_NET_WM_WINDOW_TYPE_DOCK"):
                        found.append(self._describe(window, active))
                except GONE:
                    continue  # closed while we were asking
            return found

    def active_title(self) -> str:
        with self._lock:
            active = self._number(self._root, "_NET_ACTIVE_WINDOW")
            if not active:
                return ""
            try:
                return self._title(self._display.create_resource_object("window", active))
            except GONE:
                return ""

    def find(self, name: str, by_class: bool = False, strict: bool = False) -> Window | None:
        """The first window, from the top, whose title (or class) is or contains that name, in any case."""
        wanted = name.lower()
        for window in reversed(self.present()):
            names = [window.title]
            if by_class:
                names = [window.wm_class, *window.wm_class.split(".", 1)]
            names = [name.lower() for name in names]
            if wanted in names or (not strict and any(wanted in name for name in names)):
                return window
        return None

    def activate(self, name: str, by_class: bool = False, strict: bool = False) -> bool:
        window = self.find(name, by_class, strict)
        if window is None:
            return False
        self._tell(window.id, "_NET_ACTIVE_WINDOW", [FROM_PAGER, X.CurrentTime, 0])
        self._until(lambda: self._active_id() == window.id)
        return True

    def close(self, name: str, by_class: bool = False, strict: bool = False) -> bool:
        """Ask it to close. It may answer with a question of its own: then it stays."""
        window = self.find(name, by_class, strict)
        if window is None:
            return False
        self._tell(window.id, "_NET_CLOSE_WINDOW", [X.CurrentTime, FROM_PAGER])
        self._until(lambda: all(other.id != window.id for other in self.present()))
        return True

    def wait(self, name: str, seconds: float, active: bool = False) -> Window | None:
        """Wait until a window with that text in its title or class is there (and, if asked, is the active
        one).
        """
        patience = Patience(seconds)
        while True:
            window = self.find(name) or self.find(name, by_class=True)
            if window is not None and (window.active or not active):
                return window
            if not patience.left():
                return None
            time.sleep(POLL_SECONDS)

    def _until(self, done: Any) -> None:
        patience = Patience(OBEYED_SECONDS)
        while not done() and patience.left():
            time.sleep(POLL_SECONDS)

    def _active_id(self) -> int:
        with self._lock:
            return self._number(self._root, "_NET_ACTIVE_WINDOW")

    def _tell(self, window_id: int, message: str, data: list[int]) -> None:
        with self._lock:
            window = self._display.create_resource_object("window", window_id)
            event = ClientMessage(
                window=window,
                client_type=self._atom(message),
                data=(32, (data + [0] * 5)[:5]),
            )
            self._root.send_event(event, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
            self._display.sync()

    def _clients(self) -> list[XWindow]:
        found = self._root.get_full_property(self._atom("_NET_CLIENT_LIST_STACKING"), Xatom.WINDOW)
        ids = found.value if found else []
        return [self._display.create_resource_object("window", window_id) for window_id in ids]

    def _describe(self, window: XWindow, active: int) -> Window:
        shape = window.get_geometry()
        corner = self._root.translate_coords(window, 0, 0)
        return Window(
            id=window.id,
            title=self._title(window),
            wm_class=".".join(window.get_wm_class() or ()),
            x=corner.x,
            y=corner.y,
            width=shape.width,
            height=shape.height,
            active=window.id == active,
            pid=self._number(window, "_NET_WM_PID"),
        )

    def _title(self, window: XWindow) -> str:
        title = self._text(window, "_NET_WM_NAME")
        if title:
            return title
        name = window.get_wm_name()
        return name.decode("latin-1") if isinstance(name, bytes) else name or ""

    def _is_type(self, window: XWindow, *types: str) -> bool:
        try:
            found = window.get_full_property(self._atom("_NET_WM_WINDOW_TYPE"), Xatom.ATOM)
        except GONE:
            return False
        return bool(found) and any(self._atom(name) in found.value for name in types)

    def _text(self, window: XWindow, name: str) -> str:
        found = window.get_full_property(self._atom(name), X.AnyPropertyType)
        if not found:
            return ""
        value = found.value
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def _number(self, window: XWindow, name: str) -> int:
        found = window.get_full_property(self._atom(name), X.AnyPropertyType)
        return int(found.value[0]) if found and len(found.value) else 0

    def _atom(self, name: str) -> int:
        if name not in self._atoms:
            self._atoms[name] = self._display.intern_atom(name)
        return self._atoms[name]
