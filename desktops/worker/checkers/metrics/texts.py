"""Metrics on text files and settings files made of lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)")


@metric("compare_text_file")
def compare_text_file(
    found: Path, expected: Path, *, ignore_blanks: bool = False, ignore_case: bool = False
) -> float:
    """Two files hold the same text."""
    return float(_plain(found, ignore_blanks, ignore_case) == _plain(expected, ignore_blanks, ignore_case))


def _plain(path: Path, ignore_blanks: bool, ignore_case: bool) -> str:
    content = readers.text(path)
    if ignore_blanks:
        content = re.sub(r"\s+", " ", content).strip()
    return content.lower() if ignore_case else content


@metric("check_text")
def check_text(found: Path, expected: Rules) -> float:
    """A text file is `text` (but for ends of line at its end), holds all of `include`, none of `exclude`."""
    content = readers.text(found)
    if "text" in expected and content.rstrip("\n") != str(expected["text"]).rstrip("\n"):
        return 0.0
    included = all(part in content for part in expected.get("include") or [])
    return float(included and not any(part in content for part in expected.get("exclude") or []))


@metric("diff_text_file")
def diff_text_file(found: Path, expected: Path) -> float:
    """The share of lines that two files have in common, 0 to 1."""
    return difflib.SequenceMatcher(
        None, readers.lines(found), readers.lines(expected), autojunk=False
    ).ratio()


@metric("compare_config")
def compare_config(found: Path, expected: Rules) -> float:
    """The file's whole content is the expected text."""
    return float(readers.text(found) == expected["expected"])


@metric("file_contains")
def file_contains(found: Path, expected: Rules) -> float:
    """The file holds every expected text."""
    content = readers.text(found)
    return float(all(part in content for part in expected["expected"]))


@metric("check_line_number")
def check_line_number(found: Path, expected: Rules) -> float:
    """As many lines as expected hold a time of day (hh:mm:ss)."""
    count = sum(1 for line in readers.lines(found) if _CLOCK.search(line))
    return float(count == int(expected["expected"]))


@metric("check_list")
def check_list(found: Path, expected: Rules) -> float:
    """Each pattern of `expect` matches some line, none of `unexpect` matches any."""
    lines = readers.lines(found)

    def seen(pattern: str) -> bool:
        return any(re.search(pattern, line) for line in lines)

    wanted = all(seen(pattern) for pattern in expected.get("expect") or [])
    return float(wanted and not any(seen(pattern) for pattern in expected.get("unexpect") or []))


@metric("check_config_status")
def check_config_status(found: Path, expected: Rules) -> float:
    """A line `(key value)` as in GIMP's settings; with a list as key the line starts with its words."""
    key = expected["key"]
    keys = [key] if isinstance(key, str) else list(key)
    for line in readers.lines(found):
        words = line.strip().lstrip("(").rstrip(")").split()
        if line.startswith("#") or len(words) <= len(keys):
            continue
        if words[: len(keys)] == keys and words[-1] == expected["value"]:
            return 1.0
    return 0.0
