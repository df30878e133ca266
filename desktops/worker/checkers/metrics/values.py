"""Metrics on plain values: texts, lists, JSON objects."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from rapidfuzz import fuzz

from desktops.worker.checkers.errors import Unreadable

from .registry import metric

Rules = Mapping[str, Any]


@metric("exact_match")
def exact_match(found: Any, expected: Rules) -> float:
    """The found value is the expected one, to the letter."""
    return float(found == expected["expected"])


@metric("is_in_list")
def is_in_list(found: Any, expected: Rules) -> float:
    """The expected value is among (or, in a text, within) what was found."""
    return float(found is not None and expected["expected"] in found)


@metric("match_in_list")
def match_in_list(found: Any, expected: Rules) -> float:
    """What was found is one of the expected values."""
    return float(found in expected["expected"])


@metric("check_include_exclude")
def check_include_exclude(found: str | None, expected: Rules) -> float:
    """The text holds every part of `include` and none of `exclude`."""
    if found is None:
        return 0.0
    included = all(part in found for part in expected.get("include") or [])
    return float(included and not any(part in found for part in expected.get("exclude") or []))


@metric("literal_match")
def literal_match(found: Any, expected: Any, *, type: str = "str", ignore_case: bool = False) -> float:
    """Equal as texts, or with type "list" as lists of texts."""
    wanted = expected["expected"] if isinstance(expected, Mapping) else expected

    def plain(value: Any) -> str:
        return str(value).lower() if ignore_case else str(value)

    if type == "list":
        if not isinstance(found, list) or not isinstance(wanted, list):
            return 0.0
        return float([plain(item) for item in found] == [plain(item) for item in wanted])
    return float(plain(found) == plain(wanted))


@metric("fuzzy_match")
def fuzzy_match(found: Any, expected: Any) -> float:
    """How alike two texts are, 0 to 1."""
    wanted = expected["expected"] if isinstance(expected, Mapping) else expected
    return fuzz.ratio(str(found), str(wanted)) / 100


@metric("is_in_vm_clickboard")
def is_in_vm_clickboard(found: Rules, expected: str) -> float:
    """The clipboard (second value) holds the text, or all the texts, of the rule."""
    wanted = found["expected"]
    parts = wanted if isinstance(wanted, list) else [wanted]
    return float(all(part in expected for part in parts))


@metric("check_direct_json_object")
def check_direct_json_object(found: Any, expected: Rules) -> float:
    """Each expected key has its value; with `expect_in_result` the value is only a part of what was found."""
    value = _as_object(found)
    if value is None:
        return 0.0
    within = bool(expected.get("expect_in_result", False))
    unordered = bool(expected.get("ignore_list_order", False))
    for key, wanted in expected["expected"].items():
        got = value.get(key)
        if within:
            options = wanted if isinstance(wanted, list) else [wanted]
            if got is None or not any(option in got for option in options):
                return 0.0
        elif unordered and isinstance(wanted, list) and isinstance(got, list):
            if sorted(map(str, wanted)) != sorted(map(str, got)):
                return 0.0
        elif got != wanted:
            return 0.0
    return 1.0


def _as_object(found: Any) -> dict[str, Any] | None:
    """A JSON object, also when it comes as JSON or as Python's own notation with single quotes."""
    if isinstance(found, str):
        text = found.strip()
        try:
            found = json.loads(text)
        except ValueError:
            try:
                found = ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
                raise Unreadable(f"the value is no JSON object: {text[:200]}") from error
    return found if isinstance(found, dict) else None


@metric("is_expected_url_pattern_match")
def is_expected_url_pattern_match(found: Any, expected: Rules) -> float:
    """Every expected pattern is found in the address."""
    address = found.get("url", "") if isinstance(found, Mapping) else str(found or "")
    return float(bool(address) and all(re.search(pattern, address) for pattern in expected["expected"]))


@metric("is_extension_installed")
def is_extension_installed(found: str, expected: Rules) -> float:
    """The list of extensions contains the expected one, or with type "not_contain" does not."""
    inside = expected["expected"] in found
    return float(inside if expected["type"] == "contain" else not inside)


@metric("is_utc_0")
def is_utc_0(found: str) -> float:
    """`timedatectl status` shows a time zone at UTC+0."""
    zone = next((line for line in found.splitlines() if "Time zone:" in line), "")
    return float(zone.rstrip().endswith("+0000)"))


@metric("check_gnome_favorite_apps")
def check_gnome_favorite_apps(found: str, expected: Rules) -> float:
    """The favourites are exactly the expected ones, in any order."""
    text = found.strip().removeprefix("@as").strip()
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise Unreadable(f"the favourites are no list: {text[:200]}") from error
    return float(sorted(names) == sorted(expected["expected"]))


@metric("check_moved_jpgs")
def check_moved_jpgs(found: Rules, expected: Rules) -> float:
    """The folder holds exactly the expected names."""
    return float(sorted(child["name"] for child in found["children"]) == sorted(expected["expected"]))


@metric("is_vlc_fullscreen")
def is_vlc_fullscreen(found: Rules, expected: Rules) -> float:
    """Window and screen have the same size."""
    return float((found["width"], found["height"]) == (expected["width"], expected["height"]))


@metric("check_folder_names")
def check_folder_names(found: Rules, expected: Rules) -> float:
    """A folder's names: `include` are there, `exclude` are not; with `only` there is nothing else.

    Names of folders end with a slash, nested ones are written as paths.
    """
    names = set(_paths(found, ""))
    wanted = set(expected.get("include") or [])
    if not wanted <= names or names & set(expected.get("exclude") or []):
        return 0.0
    return float(not expected.get("only") or names == wanted)


def _paths(tree: Rules, prefix: str) -> list[str]:
    paths = []
    for child in tree["children"]:
        folder = child["type"] == "directory"
        paths.append(prefix + child["name"] + ("/" if folder else ""))
        if folder:
            paths += _paths(child, prefix + child["name"] + "/")
    return paths
