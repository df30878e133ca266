"""The browser's settings, bookmarks, history and cookies, read from its profile folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers
from desktops.worker.checkers.bench import Bench
from desktops.worker.checkers.errors import ArtefactMissing
from desktops.worker.guest_client import GuestFileMissing

from .registry import getter

PROFILES = ("/home/user/.config/google-chrome/Default", "/home/user/.config/chromium/Default")


@getter("bookmarks")
def bookmarks(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The roots of the bookmark tree. No file: no bookmarks."""
    roots = readers.json_value(_profile_file(bench, "Bookmarks")).get("roots")
    return roots if isinstance(roots, dict) else {}


@getter("history")
def history(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """The history, an SQLite file."""
    return _profile_file(bench, "History", str(parameters.get("dest") or ""))


@getter("cookie_data")
def cookie_data(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """The cookies, an SQLite file."""
    return _profile_file(bench, "Cookies", str(parameters.get("dest") or ""))


@getter("profile_name")
def profile_name(bench: Bench, parameters: Mapping[str, Any]) -> Any:
    return _preference(bench, "profile", "name")


@getter("default_search_engine")
def default_search_engine(bench: Bench, parameters: Mapping[str, Any]) -> str:
    found = _preference(bench, "default_search_provider_data", "template_url_data", "short_name")
    return str(found or "Google")


@getter("enable_do_not_track")
def enable_do_not_track(bench: Bench, parameters: Mapping[str, Any]) -> str:
    return _flag(_preference(bench, "enable_do_not_track"))


@getter("enable_safe_browsing")
def enable_safe_browsing(bench: Bench, parameters: Mapping[str, Any]) -> str:
    found = _preference(bench, "safebrowsing") or {}
    return _flag(found.get("enabled") or found.get("enhanced"))


@getter("enable_enhanced_safety_browsing")
def enable_enhanced_safety_browsing(bench: Bench, parameters: Mapping[str, Any]) -> str:
    return _flag(_preference(bench, "safebrowsing", "enhanced"))


@getter("new_startup_page")
def new_startup_page(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """ "true" when the browser starts with the new tab page (5, also the default)."""
    session = _preference(bench, "session") or {}
    return _flag(session.get("restore_on_startup", 5) == 5)


@getter("data_delete_automacally")
def data_delete_automatically(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """Whether site data goes when the browser is closed (the name is the task format's)."""
    setting = _preference(bench, "profile", "default_content_setting_values", "cookies")
    return _flag(setting == 4)


@getter("chrome_font_size")
def chrome_font_size(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, int]:
    """Font sizes of web pages in pixels: {default_fixed_font_size, default_font_size, minimum_font_size}."""
    found = _preference(bench, "webkit", "webprefs") or {}
    return {"default_fixed_font_size": 13, "default_font_size": 16, "minimum_font_size": 13} | found


@getter("chrome_language")
def chrome_language(bench: Bench, parameters: Mapping[str, Any]) -> str:
    return str(_preference(bench, "intl", "app_locale") or "en-US")


@getter("shortcuts_on_desktop")
def shortcuts_on_desktop(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, str]:
    """The desktop files on the desktop: path → content."""
    folder = "/home/user/Desktop"
    try:
        entries = bench.guest.list_dir(folder)
    except GuestFileMissing as error:
        raise ArtefactMissing(f"there is no folder {folder}") from error
    paths = [f"{folder}/{entry.name}" for entry in entries if entry.name.endswith(".desktop")]
    return {path: readers.text(bench.fetch(path)) for path in paths}


@getter("find_unpacked_extension_path")
def find_unpacked_extension_path(bench: Bench, parameters: Mapping[str, Any]) -> list[str]:
    """Folders of the extensions that are installed."""
    settings = _preference(bench, "extensions", "settings") or {}
    return [str(item["path"]) for item in settings.values() if isinstance(item, dict) and "path" in item]


def _preference(bench: Bench, *keys: str) -> Any:
    """A setting by its path; None where it is at its default."""
    value = readers.json_value(_profile_file(bench, "Preferences"))
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _profile_file(bench: Bench, name: str, dest: str = "") -> Path:
    for profile in PROFILES:
        for path in (f"{profile}/{name}", f"{profile}/Network/{name}"):
            if bench.guest.exists(path):
                return bench.fetch(path, dest or name)
    raise ArtefactMissing(f"the browser's profile has no {name}")


def _flag(value: Any) -> str:
    return "true" if value else "false"
