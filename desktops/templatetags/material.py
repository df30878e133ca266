"""Words for what desktops and tasks are made of."""

from __future__ import annotations

import math
from typing import Final

from django import template

register = template.Library()

# OSWorld's words for applications, as people call them.
APPS: Final = {
    "libreoffice": "LibreOffice",
    "libreoffice_calc": "Calc",
    "libreoffice_writer": "Writer",
    "libreoffice_impress": "Impress",
    "gimp": "GIMP",
    "vlc": "VLC",
    "vscode": "VS Code",
    "vs_code": "VS Code",
    "chrome": "Chromium",  # what is installed, and what its windows say
    "chromium": "Chromium",
    "thunderbird": "Thunderbird",
    "os": "System",
    "multi_apps": "Several apps",
    "pdf": "PDF viewer",
    "image": "Image viewer",
    "file_manager": "Files",
    "settings": "Settings",
    "files": "Files",
}

ENGINES: Final = {"docker": "Docker", "podman": "Podman", "runc": "runc", "process": "Process"}


@register.filter
def engine_name(engine: str) -> str:
    """As its makers write it."""
    return ENGINES.get(engine, engine)


@register.filter
def app_name(app: str) -> str:
    """`libreoffice_calc` → `Calc`; a word that is not known loses its underscores and gains a capital."""
    return APPS.get(app) or app.replace("_", " ").replace("libreoffice ", "").capitalize()


@register.filter
def about_minutes(minutes: float | None) -> str:
    """A forecast's length, never more exact than it is: `40 s`, `12 min`, `3 h 20 min`, `5 days`."""
    if minutes is None:
        return "—"
    if minutes < 2:
        return f"{math.ceil(minutes * 60)} s"
    if minutes < 100:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        hours, rest = divmod(round(minutes), 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{minutes / 1440:.0f} days"


@register.filter
def gigabytes(megabytes: int | None) -> str:
    """`2048` → `2 GB`."""
    if not megabytes:
        return "—"
    return (
        f"{megabytes / 1024:.1f}".rstrip("0").rstrip(".") + " GB" if megabytes >= 1024 else f"{megabytes} MB"
    )


@register.filter
def is_start_of(title: str, instruction: str) -> bool:
    """Whether a title is only the beginning of the instruction, so that saying both says the same twice."""
    return instruction.strip().startswith(title.rstrip("…").rstrip())
