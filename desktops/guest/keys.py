"""Names of keys and characters as X keysyms."""

from __future__ import annotations

from Xlib import XK

for _group in ("xf86", "xkb", "latin2", "cyrillic", "greek"):
    XK.load_keysym_group(_group)

NO_SYMBOL = 0

# Short forms people and models write, beside the keysyms' own names.
_ALIASES = {
    "ctrl": "Control_L",
    "control": "Control_L",
    "ctrlleft": "Control_L",
    "ctrlright": "Control_R",
    "alt": "Alt_L",
    "altleft": "Alt_L",
    "altright": "Alt_R",
    "option": "Alt_L",
    "altgr": "ISO_Level3_Shift",
    "shift": "Shift_L",
    "shiftleft": "Shift_L",
    "shiftright": "Shift_R",
    "super": "Super_L",
    "win": "Super_L",
    "winleft": "Super_L",
    "winright": "Super_R",
    "meta": "Super_L",
    "cmd": "Super_L",
    "command": "Super_L",
    "enter": "Return",
    "return": "Return",
    "esc": "Escape",
    "del": "Delete",
    "ins": "Insert",
    "backspace": "BackSpace",
    "back": "BackSpace",
    "tab": "Tab",
    "space": "space",
    "spacebar": "space",
    "pageup": "Prior",
    "page_up": "Prior",
    "pgup": "Prior",
    "pagedown": "Next",
    "page_down": "Next",
    "pgdn": "Next",
    "arrowup": "Up",
    "arrowdown": "Down",
    "arrowleft": "Left",
    "arrowright": "Right",
    "capslock": "Caps_Lock",
    "numlock": "Num_Lock",
    "scrolllock": "Scroll_Lock",
    "printscreen": "Print",
    "prtsc": "Print",
    "prtscr": "Print",
    "apps": "Menu",
    "volumeup": "XF86_AudioRaiseVolume",
    "volumedown": "XF86_AudioLowerVolume",
    "volumemute": "XF86_AudioMute",
}
_BY_LOWER = {
    name[3:].lower(): getattr(XK, name) for name in sorted(dir(XK), reverse=True) if name.startswith("XK_")
}


class UnknownKey(ValueError):
    """No key has that name."""


def keysym_of_character(character: str) -> int:
    """The keysym that types this character."""
    if character in "\n\r":
        return int(XK.XK_Return)
    if character == "\t":
        return int(XK.XK_Tab)
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        raise UnknownKey(f"the control character U+{code:04X} cannot be typed")
    return code if code <= 0xFF else 0x01000000 | code


def keysym_of_name(name: str) -> int:
    """The keysym of a key: its keysym name in any case, a short form, or the one character it types."""
    if len(name) == 1:
        return keysym_of_character(name)
    exact = XK.string_to_keysym(_ALIASES.get(name.strip().lower(), name.strip()))
    found = exact or _BY_LOWER.get(name.strip().lower(), NO_SYMBOL)
    if not found:
        raise UnknownKey(f"no key is called {name!r}")
    return int(found)
