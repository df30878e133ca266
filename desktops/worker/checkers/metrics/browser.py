"""Metrics on the browser's bookmarks, history, cookies and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]


@metric("is_expected_bookmarks")
def is_expected_bookmarks(found: Rules, expected: Rules) -> float:
    """The bookmark bar holds exactly the expected folders (`names`) or pages (`urls`).

    With `liked_authors_websites_urls` the pages are those in the bar's folder "Liked Authors".
    """
    bar = (found.get("bookmark_bar") or {}).get("children") or []
    kind = expected["type"]
    if kind == "bookmark_bar_folders_names":
        names = [item.get("name") for item in bar if item.get("type") == "folder"]
        return float(set(names) == set(expected["names"]))
    if kind == "liked_authors_websites_urls":
        folder: dict[str, Any] = next((item for item in bar if item.get("name") == "Liked Authors"), {})
        bar = folder.get("children") or []
    urls = {item.get("url") for item in bar if item.get("type") == "url"}
    return float(urls == set(expected["urls"]))


@metric("check_bookmark")
def check_bookmark(found: Rules, expected: Rules) -> float:
    """Somewhere among the bookmarks is one with this `name` and `url`, as far as each is given."""
    keys = [key for key in ("name", "url") if key in expected]
    return float(any(all(item.get(key) == expected[key] for key in keys) for item in _pages(found)))


def _pages(roots: Rules) -> Iterator[Rules]:
    for item in roots.values():
        if isinstance(item, Mapping):
            yield from _below(item)


def _below(item: Rules) -> Iterator[Rules]:
    if item.get("type") == "url":
        yield item
    for child in item.get("children") or []:
        yield from _below(child)


@metric("is_cookie_deleted")
def is_cookie_deleted(found: Path, expected: Rules) -> float:
    """No cookie of those domains is left."""
    hosts = [str(row[0]) for row in readers.rows(found, "SELECT host_key FROM cookies")]
    domains = [domain.lstrip(".") for domain in expected["domains"]]
    left = any(host.lstrip(".") == name or host.endswith(f".{name}") for host in hosts for name in domains)
    return float(not left)


@metric("check_history_deleted")
def check_history_deleted(found: Path, expected: Rules) -> float:
    """No address or title in the history holds one of those words."""
    rows = readers.rows(found, "SELECT url, title FROM urls")
    words = [word.lower() for word in expected["keywords"]]
    return float(not any(word in f"{url} {title}".lower() for url, title in rows for word in words))


@metric("check_history")
def check_history(found: Path, expected: Rules) -> float:
    """The history has visits to every one of `urls`."""
    visited = {row[0] for row in readers.rows(found, "SELECT url FROM urls WHERE visit_count > 0")}
    return float(set(expected["urls"]) <= visited)


@metric("is_shortcut_on_desktop")
def is_shortcut_on_desktop(found: Mapping[str, str], expected: Rules) -> float:
    """A desktop file on the desktop has that name, command or address."""
    key = {"name": "Name", "exec": "Exec", "url": "URL", "id": "Exec"}[expected["type"]]
    wanted = str(expected[expected["type"]])
    for content in found.values():
        lines = [
            line.partition("=")[2].strip() for line in content.splitlines() if line.startswith(f"{key}=")
        ]
        if any(line == wanted or (expected["type"] == "id" and wanted in line) for line in lines):
            return 1.0
    return 0.0


@metric("check_font_size")
def check_font_size(found: Mapping[str, int], expected: Rules) -> float:
    """The default font size is `value`, or with type "range" between min and max."""
    size = found["default_font_size"]
    if expected["type"] == "value":
        return float(size == expected["value"])
    return float(expected["min"] < size < expected["max"])
