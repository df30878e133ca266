"""The hands: pointer and keyboard by XTEST."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from Xlib import X
from Xlib.display import Display
from Xlib.ext import xtest

from .keys import NO_SYMBOL, keysym_of_character, keysym_of_name

BUTTONS = {"left": 1, "middle": 2, "right": 3}
DOUBLE_CLICK_SECONDS = 0.5  # what toolkits take for one double click, with some air
DOUBLE_CLICK_PIXELS = 8
DRAG_POINTS = 24
DRAG_PAUSE = 0.006  # toolkits only see a drag that lasts
SHIFT = keysym_of_name("shift")


class Input:
    """One keyboard and pointer. `settle(quiet_ms, timeout_ms)` waits until the screen rests."""

    def __init__(self, display: str, settle: Callable[[float, float], object]) -> None:
        self._display = Display(display)
        self._root = self._display.screen().root
        self._settle = settle
        self._lock = threading.Lock()
        self._last_click = (0.0, -1, -1, 0)
        self._bound: OrderedDict[int, int] = OrderedDict()  # keysym → keycode, oldest use first
        self._read_layout()

    # ── the pointer ─────────────────────────────────────────────────────────────────────────────────────────

    def move(self, x: int, y: int) -> None:
        with self._lock:
            self._move(x, y)
            self._display.sync()

    def click(self, x: int, y: int, button: str = "left", keys: list[str] | None = None) -> None:
        """One click, `keys` held meanwhile. It never makes a double click of a click just before."""
        with self._lock:
            self._keep_apart(x, y, BUTTONS[button])
            held = [self._code(keysym_of_name(name))[0] for name in keys or []]
            self._move(x, y)
            for code in held:
                self._key(code, True)
            self._press_release(BUTTONS[button])
            for code in reversed(held):
                self._key(code, False)
            self._display.sync()
            self._last_click = (time.monotonic(), x, y, BUTTONS[button])

    def double_click(self, x: int, y: int, button: str = "left") -> None:
        with self._lock:
            self._keep_apart(x, y, BUTTONS[button])
            self._move(x, y)
            self._press_release(BUTTONS[button])
            self._press_release(BUTTONS[button])
            self._display.sync()
            self._last_click = (time.monotonic(), x, y, BUTTONS[button])

    def drag(self, x: int, y: int, to_x: int, to_y: int, button: str = "left") -> None:
        """Press, move in small steps, let the target answer, release."""
        with self._lock:
            self._keep_apart(x, y, BUTTONS[button])
            self._move(x, y)
            xtest.fake_input(self._display, X.ButtonPress, BUTTONS[button])
            self._display.sync()
            for step in range(1, DRAG_POINTS + 1):
                time.sleep(DRAG_PAUSE)
                at_x = x + (to_x - x) * step // DRAG_POINTS
                at_y = y + (to_y - y) * step // DRAG_POINTS
                self._move(at_x, at_y)
                self._display.sync()
            self._settle(60, 600)
            xtest.fake_input(self._display, X.ButtonRelease, BUTTONS[button])
            self._display.sync()

    def scroll(self, x: int, y: int, dx: int = 0, dy: int = 0) -> None:
        """Wheel notches: positive dy down, positive dx right."""
        with self._lock:
            self._move(x, y)
            for button, count in ((5 if dy > 0 else 4, abs(dy)), (7 if dx > 0 else 6, abs(dx))):
                for _ in range(count):
                    self._press_release(button)
            self._display.sync()

    def position(self) -> tuple[int, int]:
        with self._lock:
            pointer = self._root.query_pointer()
            return pointer.root_x, pointer.root_y

    def _move(self, x: int, y: int) -> None:
        xtest.fake_input(self._display, X.MotionNotify, x=x, y=y)

    def _press_release(self, button: int) -> None:
        xtest.fake_input(self._display, X.ButtonPress, button)
        xtest.fake_input(self._display, X.ButtonRelease, button)

    def _keep_apart(self, x: int, y: int, button: int) -> None:
        """Two clicks at one place are two clicks, however quickly they were asked for."""
        at, last_x, last_y, last_button = self._last_click
        near = abs(x - last_x) <= DOUBLE_CLICK_PIXELS and abs(y - last_y) <= DOUBLE_CLICK_PIXELS
        left = at + DOUBLE_CLICK_SECONDS - time.monotonic()
        if near and button == last_button and left > 0:
            time.sleep(left)

    # ── the keyboard ────────────────────────────────────────────────────────────────────────────────────────

    def press(self, names: list[str], times: int = 1) -> None:
        """One chord, `times` times: the modifiers go down first and come up last."""
        with self._lock:
            codes: list[int] = []
            for name in names:
                code, shifted = self._code(keysym_of_name(name))
                if shifted and len(names) == 1:
                    codes.append(self._code(SHIFT)[0])
                codes.append(code)
            for _ in range(times):
                for code in codes:
                    self._key(code, True)
                for code in reversed(codes):
                    self._key(code, False)
            self._display.sync()

    def type(self, text: str) -> None:
        """Type any text. Characters the layout lacks are bound to spare keycodes before they are typed."""
        symbols = [keysym_of_character(character) for character in text.replace("\r\n", "\n")]
        with self._lock:
            for chunk in self._chunks(symbols):
                self._bind(chunk)
                shift = self._code(SHIFT)[0]
                for symbol in chunk:
                    code, shifted = self._code(symbol)
                    if shifted:
                        self._key(shift, True)
                    self._key(code, True)
                    self._key(code, False)
                    if shifted:
                        self._key(shift, False)
                self._display.sync()

    def _key(self, code: int, down: bool) -> None:
        xtest.fake_input(self._display, X.KeyPress if down else X.KeyRelease, code)

    def _read_layout(self) -> None:
        """Which key types what, plain or with shift; the lowest keycode wins.

        The extra key of European keyboards has "<" and ">" too, on another level than clients expect: the
        lowest
        keycode is the comma's and the full stop's, where both are right.
        """
        first = self._display.display.info.min_keycode
        count = self._display.display.info.max_keycode - first + 1
        self._codes: dict[int, tuple[int, bool]] = {}
        self._spare: list[int] = []
        for offset, symbols in enumerate(self._display.get_keyboard_mapping(first, count)):
            code = first + offset
            if not any(symbols):
                self._spare.append(code)
                continue
            if symbols[1] != NO_SYMBOL and self._codes.get(symbols[0], (0, False))[1]:
                # That extra key. Clients as pyautogui find it first, hold shift and get ">" for "<": away with it.
                self._display.change_keyboard_mapping(code, [[NO_SYMBOL] * len(symbols)])
                self._spare.append(code)
                continue
            for level, symbol in enumerate(symbols[:2]):
                if symbol != NO_SYMBOL:
                    self._codes.setdefault(symbol, (code, level == 1))
        self._display.sync()  # the change must not wait for the first key that is pressed

    def _code(self, symbol: int) -> tuple[int, bool]:
        """(keycode, whether shift goes with it)."""
        if symbol in self._codes:
            return self._codes[symbol]
        if symbol not in self._bound:
            self._bind([symbol])
        return self._bound[symbol], False

    def _chunks(self, symbols: list[int]) -> list[list[int]]:
        """Cut so that no piece needs more spare keycodes than there are."""
        chunks: list[list[int]] = [[]]
        needed: set[int] = set()
        for symbol in symbols:
            if symbol not in self._codes and symbol not in needed:
                if len(needed) == len(self._spare):
                    chunks.append([])
                    needed = set()
                needed.add(symbol)
            chunks[-1].append(symbol)
        return chunks

    def _bind(self, symbols: list[int]) -> None:
        """Give each symbol that the layout lacks a keycode of its own. Bindings stay until they must make
        room:
        a client looks a key up when it gets to the event, which may be after we have gone on."""
        wanted = [symbol for symbol in dict.fromkeys(symbols) if symbol not in self._codes]
        for symbol in wanted:
            if symbol in self._bound:
                self._bound.move_to_end(symbol)
        missing = [symbol for symbol in wanted if symbol not in self._bound]
        if not missing:
            return
        free = [code for code in self._spare if code not in self._bound.values()]
        if len(free) < len(missing):
            self._settle(80, 1500)  # let clients take in what was typed with the bindings that now go
        for symbol in missing:
            code = free.pop() if free else self._bound.popitem(last=False)[1]
            self._display.change_keyboard_mapping(code, [[symbol, symbol]])
            self._bound[symbol] = code
        self._display.sync()
