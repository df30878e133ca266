"""Which apps each template has, by the names that tasks use in `related_apps`."""

from __future__ import annotations

from collections.abc import Iterable

_BASIC = frozenset({"terminal", "files", "editor", "settings"})
# "os" is OSWorld's name for its whole Ubuntu desktop, with sound and video player: only `office` has that.
_OFFICE = _BASIC | {
    "os",
    "libreoffice",
    "libreoffice_calc",
    "libreoffice_writer",
    "libreoffice_impress",
    "gimp",
    "vlc",
    "chrome",
    "thunderbird",
    "image",
    "pdf",
}
TEMPLATE_APPS: dict[str, frozenset[str]] = {"basic": _BASIC, "office": _OFFICE}


def templates_for(apps: Iterable[str]) -> list[str]:
    """Names of the templates that have every one of these apps."""
    wanted = set(apps)
    return [name for name, has in TEMPLATE_APPS.items() if wanted <= has]


def missing_apps(apps: Iterable[str]) -> list[str]:
    """Those of the apps that no template has."""
    everything = frozenset().union(*TEMPLATE_APPS.values())
    return [app for app in apps if app not in everything]
