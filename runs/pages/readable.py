"""Setup steps, checks and recipe actions as sentences, with what they are exactly beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from desktops.worker.task import Check, SetupStep, Source

LONGEST = 160  # of a parameter in a sentence; the whole document is on the page too


@dataclass(frozen=True)
class Line:
    """`words` say what happens, `detail` (in mono) to what exactly."""

    icon: str
    words: str
    detail: str = ""
    note: str = ""


_STEPS = {
    "download": ("download", "Put files into place"),
    "upload_file": ("upload", "Put files into place"),
    "launch": ("circle-play", "Start"),
    "execute": ("terminal", "Run a command"),
    "command": ("terminal", "Run a command"),
    "open": ("file-text", "Open"),
    "activate_window": ("monitor", "Bring a window to the front"),
    "close_window": ("x", "Close a window"),
    "sleep": ("hourglass", "Wait until the screen is still"),
    "chrome_open_tabs": ("globe", "Open tabs"),
    "chrome_close_tabs": ("globe", "Close tabs"),
    "change_wallpaper": ("image", "Set the wallpaper"),
}

_ACTIONS = {
    "click": "mouse-pointer-click",
    "double_click": "mouse-pointer-click",
    "move": "mouse-pointer-2",
    "drag": "grab",
    "scroll": "mouse",
    "type": "type",
    "key": "keyboard",
    "wait": "hourglass",
    "done": "check",
    "fail": "ban",
}


def step(one: SetupStep) -> Line:
    icon, words = _STEPS.get(one.type, ("settings", one.type.replace("_", " ").capitalize()))
    return Line(icon, words, _parameters(one.parameters))


def check(one: Check) -> dict[str, Any]:
    """A metric with where its two values come from."""
    return {
        "metric": one.metric,
        "words": one.metric.replace("_", " ").capitalize(),
        "found": _source(one.result),
        "expected": _source(one.expected),
        "options": _parameters(one.options),
    }


def actions(recipe: Any) -> list[Line]:
    """The actions of a stored recipe, one a line; empty where there is no recipe."""
    steps = recipe.get("actions", []) if isinstance(recipe, dict) else recipe or []
    return [_action(one) for one in steps if isinstance(one, dict)]


def as_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _action(one: dict[str, Any]) -> Line:
    name, at = str(one.get("action", "")), f"{one.get('x')}, {one.get('y')}"
    note = str(one.get("note", ""))
    if name in ("click", "double_click"):
        words = {"click": "Click", "double_click": "Double click"}[name]
        button = one.get("button", "left")
        words = words if button == "left" else f"{words} with the {button} button"
        held = "+".join(one.get("keys", []))
        return Line(_ACTIONS[name], words, f"{held} at {at}" if held else f"at {at}", note)
    if name == "move":
        return Line(_ACTIONS[name], "Move the pointer", f"to {at}", note)
    if name == "drag":
        return Line(_ACTIONS[name], "Drag", f"{at} to {one.get('to_x')}, {one.get('to_y')}", note)
    if name == "scroll":
        return Line(_ACTIONS[name], "Scroll", f"{one.get('dx', 0)}, {one.get('dy', 0)} at {at}", note)
    if name == "type":
        return Line(_ACTIONS[name], "Type", _short(json.dumps(one.get("text", ""), ensure_ascii=False)), note)
    if name == "key":
        times = one.get("times", 1)
        chord = "+".join(str(key) for key in one.get("keys", []))
        return Line(_ACTIONS[name], "Press", chord if times == 1 else f"{chord} × {times}", note)
    if name == "wait":
        window = one.get("window", "")
        return Line(_ACTIONS[name], "Wait for a window" if window else "Wait until still", window, note)
    words = {"done": "Say that it is done", "fail": "Say that it cannot be done"}.get(name, name or "Unknown")
    return Line(_ACTIONS.get(name, "circle-help"), words, "", note)


def _source(source: Source | None) -> Line | None:
    if source is None:
        return None
    return Line("search", source.type.replace("_", " ").capitalize(), _parameters(source.parameters))


def _parameters(parameters: dict[str, Any]) -> str:
    """`path: /home/user/a.xlsx; …`: a single parameter without its name."""
    if len(parameters) == 1:
        return _short(_value(next(iter(parameters.values()))))
    return _short("; ".join(f"{name}: {_value(value)}" for name, value in parameters.items()))


def _value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
