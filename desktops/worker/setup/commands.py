"""Steps that run something: execute, command, launch, open, sleep."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from desktops.worker.guest_client import Completed, Guest, Window

from .registry import Stage, StepRefused, step

COMMAND_SECONDS = 120.0
APP_SECONDS = (
    120.0  # a cold office suite on two busy cores has been seen to take 20, GIMP on a slow disk over 60
)
REUSE_SECONDS = 8.0
APP_DRAW_MS = 6000  # a new window that never rests (a spinner, a video) is taken as it is after this
QUIT_SECONDS = 10.0
UNTIL_SECONDS = 60.0

# First word of a command → a part of its window's class, lower case: what to wait for after a launch.
APP_WINDOWS = {
    "gimp": "gimp",
    "vlc": "vlc",
    "libreoffice": "libreoffice",
    "soffice": "libreoffice",
    "localc": "libreoffice",
    "lowriter": "libreoffice",
    "loimpress": "libreoffice",
    "google-chrome": "chrom",
    "chromium": "chrom",
    "thunderbird": "thunderbird",
    "xfce4-terminal": "terminal",
    "x-terminal-emulator": "terminal",
    "mousepad": "mousepad",
    "pcmanfm": "pcmanfm",
    "dconf-editor": "dconf",
    "pavucontrol": "pavucontrol",
}

_QUIT_KEYS = re.compile(r"hotkey\([^)]*(ctrl\W+q|alt\W+f4)", re.IGNORECASE)


@step("execute", "command", "execute_with_verification")
def execute(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Run a command to its end.

    `command` (list or text), `shell`, `stdout` and `stderr` (file names in the stage's folder), `until`
    ({returncode, stdout, stderr}: run again until one of them matches). As in OSWorld an exit status other
    than 0 is no failure; `must_succeed` makes it one.
    """
    command = as_command(parameters["command"], bool(parameters.get("shell")))
    quits = _quitting_window(stage.guest, command)
    until = parameters.get("until") or {}
    end = time.monotonic() + UNTIL_SECONDS
    while True:
        done = stage.guest.run(command, timeout=float(parameters.get("timeout", COMMAND_SECONDS)))
        if not until or _reached(done, until):
            break
        if time.monotonic() > end:
            raise StepRefused("the state that the step waits for was not reached in time")
        time.sleep(0.3)  # between two probes of a state that nothing announces
    for stream in ("stdout", "stderr"):
        if name := parameters.get(stream):
            target = stage.folder / PurePosixPath(str(name)).name
            target.write_text(getattr(done, stream))
    if done.returncode and parameters.get("must_succeed"):
        raise StepRefused(f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    if done.returncode:
        stage.notes.append(f"{_first_word(command)}: exit status {done.returncode}")
    if quits is not None:
        wait_gone(stage.guest, quits)
    elif "pyautogui" in str(command):
        stage.guest.settle(quiet_ms=150, timeout_ms=3000)


@step("launch")
def launch(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Start a program and wait until its new window is there and drawn."""
    command = as_command(parameters["command"], bool(parameters.get("shell")))
    word = _first_word(command)
    if word in ("pkill", "killall"):
        _kill(stage.guest, command)
        return
    wanted = APP_WINDOWS.get(word)
    before = {window.id for window in stage.guest.windows()}
    stage.guest.launch(command)
    if wanted is not None:
        wait_new_window(stage.guest, wanted, before)
        stage.guest.settle(quiet_ms=400, timeout_ms=APP_DRAW_MS)


@step("open")
def open_file(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Open a file or folder with its default app and wait for a window that names it."""
    path = str(parameters["path"])
    if not stage.guest.exists(path):
        raise StepRefused(f"there is no {path}")
    stage.guest.launch(["xdg-open", path])
    if stage.guest.wait_window(PurePosixPath(path).name, seconds=APP_SECONDS) is None:
        raise StepRefused(f"no window for {path} within {APP_SECONDS:g} s")
    stage.guest.settle(quiet_ms=400, timeout_ms=APP_DRAW_MS)


@step("sleep")
def sleep(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Wait until the screen is at rest, at most the seconds asked for."""
    stage.guest.settle(quiet_ms=250, timeout_ms=int(float(parameters["seconds"]) * 1000))


# ── what the steps share ────────────────────────────────────────────────────────────────────


def as_command(command: Any, shell: bool) -> str | list[str]:
    """A text for the shell, or an argument list with ~ expanded as OSWorld's guest does it."""
    if isinstance(command, list):
        if shell:
            return " ".join(str(part) for part in command)
        return [_expand(str(part)) for part in command]
    if shell:
        return str(command)
    return [_expand(part) for part in shlex.split(str(command))]


def _expand(part: str) -> str:
    return "/home/user" + part[1:] if part == "~" or part.startswith("~/") else part


def _first_word(command: str | Sequence[str]) -> str:
    """The program's bare name, after assignments such as VLC_VERBOSE=-1."""
    words = command.split() if isinstance(command, str) else list(command)
    for word in words:
        if "=" not in word or word.startswith("/"):
            return PurePosixPath(word).name
    return ""


def wait_new_window(guest: Guest, class_part: str, before: set[int], seconds: float = APP_SECONDS) -> Window:
    """Wait until a window of that class is there that was not there before.

    An app that runs already may show what it is given in the window it has: that one will do after a while.
    """
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        mine = [window for window in guest.windows() if class_part in window.wm_class.lower()]
        if fresh := [window for window in mine if window.id not in before]:
            return fresh[-1]
        if mine and time.monotonic() > began + min(seconds, REUSE_SECONDS):
            return mine[-1]
        time.sleep(0.1)  # between two probes
    raise StepRefused(f"no window of {class_part} within {seconds:g} s")


def wait_gone(guest: Guest, window: Window) -> None:
    """Wait until a window is closed, and its process ended when that was its last one.

    An app writes its settings while it ends: reading them before would judge a file that is not written yet.
    Running out of time is no failure, the app may rightly ask about unsaved work.
    """
    mine = {other.id for other in guest.windows() if window.pid and other.pid == window.pid}
    end = time.monotonic() + QUIT_SECONDS
    while time.monotonic() < end:
        windows = guest.windows()
        same = {other.id for other in windows if window.pid and other.pid == window.pid}
        closed = all(other.id != window.id for other in windows)
        if same - mine:
            return  # it asks something
        if closed and (same or not window.pid or not guest.exists(f"/proc/{window.pid}")):
            return
        time.sleep(0.05)  # between two probes


def _quitting_window(guest: Guest, command: str | Sequence[str]) -> Window | None:
    """The active window, when the command sends it the keys that quit an app."""
    if not _QUIT_KEYS.search(command if isinstance(command, str) else " ".join(command)):
        return None
    return next((window for window in guest.windows() if window.active), None)


def _kill(guest: Guest, command: str | Sequence[str]) -> None:
    """End processes by name and wait until none is left, as the launch that follows expects."""
    words = command.split() if isinstance(command, str) else list(command)
    if words[-1] == "chrome":
        # The browser here is Chromium: a pattern that fits both. It drops what it was about to write when it is
        # killed within seconds of a change, which people are too slow for and we are not: close it first.
        words[-1] = "chrom"
        for window in guest.windows():
            if "chrom" in window.wm_class.lower() and guest.close(window.title, strict=True):
                wait_gone(guest, window)
    guest.run(words, timeout=COMMAND_SECONDS)
    end = time.monotonic() + QUIT_SECONDS
    while time.monotonic() < end:
        # A process that has ended and was not reaped yet (state Z) counts as gone.
        if guest.run(["pgrep", "-r", "D,I,R,S,T", words[-1]], timeout=10).returncode:
            return
        time.sleep(0.05)  # between two probes


def _reached(done: Completed, until: Mapping[str, Any]) -> bool:
    if "returncode" in until and done.returncode == until["returncode"]:
        return True
    return any(stream in until and until[stream] in getattr(done, stream) for stream in ("stdout", "stderr"))
