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


# Where a checker reads, in words; getters that are not here are named as they are.
_SOURCES = {
    "rule": "This, exactly",
    "vm_command_line": "What a command prints",
    "vm_command_error": "What a command complains",
    "vm_file": "A file of the desktop",
    "vm_terminal_output": "What the terminal shows",
    "bundled_file": "A file that comes with the task",
    "cloud_file": "A file that comes with the task",
    "cache_file": "A file that was put into place",
    "accessibility_tree": "The accessibility tree",
    "bookmarks": "The browser’s bookmarks",
    "profile_name": "The browser’s profile name",
}


def step(one: SetupStep) -> Line:
    icon, words = _STEPS.get(one.type, ("settings", one.type.replace("_", " ").capitalize()))
    if one.type == "sleep":
        return Line(icon, words, "", f"in place of {_parameters(one.parameters)} s")
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
    """Indented JSON; the bytes of files, which nobody reads, are cut short."""
    return json.dumps(_without_bytes(document), indent=2, ensure_ascii=False)


def _without_bytes(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _without_bytes(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    if name == "content_base64" and isinstance(value, str) and len(value) > 64:
        return f"{value[:48]}… ({len(value):,} characters)"
    return value


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
    words = _SOURCES.get(source.type) or source.type.replace("_", " ").capitalize()
    rules = source.parameters.get("rules")
    if source.type == "rule" and isinstance(rules, dict):
        if set(rules) == {"expected"}:
            return Line("equal", words, _short(json.dumps(rules["expected"], ensure_ascii=False)))
        return Line("equal", "These rules", _parameters(rules))
    return Line("search", words, _parameters(source.parameters))


def _parameters(parameters: dict[str, Any]) -> str:
    """`path: /home/user/a.xlsx; …`: a single parameter without its name, files by their paths, no file's bytes."""
    shown = {name: value for name, value in parameters.items() if name not in ("content_base64", "shell")}
    if "path" in shown:
        shown.pop("dest", None)
    if len(shown) == 1:
        return _short(_value(next(iter(shown.values()))))
    return _short("; ".join(f"{name}: {_value(value)}" for name, value in shown.items()))


def _file(one: dict[str, Any]) -> str:
    """`~/a.png, 3,412 bytes` or `~/a.xlsx from https://…`."""
    if "content_base64" in one:
        size = len(one["content_base64"]) * 3 // 4 - one["content_base64"][-2:].count("=")
        return f"{one['path']}, {size:,} bytes"
    return f"{one['path']} from {one['url']}" if "url" in one else str(one["path"])


def _value(value: Any) -> str:
    if value == []:
        return "none"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    if isinstance(value, list) and all(isinstance(item, dict) and "path" in item for item in value):
        return "; ".join(_file(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
