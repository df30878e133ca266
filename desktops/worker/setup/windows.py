"""Steps on windows: activate_window, close_window."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from desktops.worker.guest_client import Window

from .commands import wait_gone
from .registry import Stage, StepRefused, step

WINDOW_SECONDS = 15.0


@step("activate_window")
def activate_window(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Raise and focus the window of that name (part of a title, or a class with `by_class`)."""
    name = str(parameters["window_name"])
    by_class, strict = bool(parameters.get("by_class")), bool(parameters.get("strict"))
    end = time.monotonic() + WINDOW_SECONDS
    while not stage.guest.activate(name, by_class=by_class, strict=strict):
        # A window that is still opening may take a moment to have its title.
        if time.monotonic() > end or not stage.guest.windows():
            raise StepRefused(f"there is no window {name!r}")
        time.sleep(0.2)  # between two probes
    stage.guest.settle(quiet_ms=150, timeout_ms=3000)


@step("close_window")
def close_window(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Close the window of that name as its close button does, and wait until it is gone."""
    name = str(parameters["window_name"])
    by_class, strict = bool(parameters.get("by_class")), bool(parameters.get("strict"))
    target = next((w for w in stage.guest.windows() if matches(w, name, by_class, strict)), None)
    if target is None or not stage.guest.close(name, by_class=by_class, strict=strict):
        raise StepRefused(f"there is no window {name!r}")
    wait_gone(stage.guest, target)


def matches(window: Window, name: str, by_class: bool, strict: bool) -> bool:
    """Whether a window is the one meant; without `strict` a part of the name, in any case, will do."""
    names = [window.wm_class, *window.wm_class.split(".")] if by_class else [window.title]
    if strict:
        return name in names
    return any(name.lower() in text.lower() for text in names)
