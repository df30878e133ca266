"""Metrics on Thunderbird: preferences and message filters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .matching import matches
from .registry import metric

Rules = Mapping[str, Any]

_PREFERENCE = re.compile(r'^user_pref\("((?:\\.|[^"\\])+)",\s*(.+)\);$')
_FILTER_LINE = re.compile(r'^(\w+)="(.*)"$')
_CONDITION = re.compile(r"(?:AND|OR) \((?:[^()]|\\\))+\)|ALL")


@metric("check_thunderbird_prefs")
def check_thunderbird_prefs(found: Path, expected: Rules) -> float:
    """Each of `expect` (name → {method, ref}) matches its preference, none of `unexpect` does."""
    preferences: dict[str, Any] = {}
    for line in readers.lines(found):
        if match := _PREFERENCE.match(line.strip()):
            try:
                preferences[match[1]] = json.loads(match[2])
            except ValueError:
                preferences[match[1]] = match[2]
    for name, rule in (expected.get("expect") or {}).items():
        if name not in preferences or not matches(preferences[name], rule):
            return 0.0
    for name, rule in (expected.get("unexpect") or {}).items():
        if name in preferences and matches(preferences[name], rule):
            return 0.0
    return 1.0


@metric("check_thunderbird_filter")
def check_thunderbird_filter(found: Path, expected: Rules) -> float:
    """Each of `expect` is a part of some filter, none of `unexpect` of any; conditions in any order."""
    filters: list[dict[str, Any]] = []
    for line in readers.lines(found):
        match = _FILTER_LINE.match(line.strip())
        if match is None:
            continue
        key, value = match[1], match[2].replace('\\"', '"')
        if key == "name":
            filters.append({})
        if filters:
            filters[-1][key] = sorted(_CONDITION.findall(value)) if key == "condition" else value

    def seen(record: Rules) -> bool:
        wanted = {key: sorted(value) if isinstance(value, list) else value for key, value in record.items()}
        return any(all(item.get(key) == value for key, value in wanted.items()) for item in filters)

    met = all(seen(record) for record in expected.get("expect") or [])
    return float(met and not any(seen(record) for record in expected.get("unexpect") or []))
