"""Metrics on structured files: JSON, YAML, CSV, SQLite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .matching import matches
from .registry import metric

Rules = Mapping[str, Any]
_NOTHING = object()


@metric("check_json")
def check_json(found: Path, expected: Rules, *, is_yaml: bool = False) -> float:
    """Each of `expect` ({key: path, method, ref}) matches, none of `unexpect` does."""
    value = readers.yaml_value(found) if is_yaml else readers.json_value(found)
    for rule in expected.get("expect") or []:
        got = _at(value, rule["key"])
        if got is _NOTHING or not matches(got, rule):
            return 0.0
    for rule in expected.get("unexpect") or []:
        got = _at(value, rule["key"])
        if got is not _NOTHING and matches(got, rule):
            return 0.0
    return 1.0


def _at(value: Any, keys: list[Any]) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return _NOTHING
    return value


@metric("check_json_settings")
def check_json_settings(found: Path, expected: Rules) -> float:
    """The settings hold every expected key with its value."""
    settings = readers.json_value(found)
    if not isinstance(settings, dict):
        return 0.0
    return float(all(settings.get(key, _NOTHING) == value for key, value in expected["expected"].items()))


@metric("check_json_keybindings")
def check_json_keybindings(found: Path, expected: Rules) -> float:
    """The expected key binding is one of those in the file."""
    bindings = readers.json_value(found)
    return float(isinstance(bindings, list) and expected["expected"] in bindings)


@metric("check_csv")
def check_csv(found: Path, expected: Rules) -> float:
    """Each record of `expect` is a part of some row, none of `unexpect` of any."""
    rows = readers.csv_rows(found)

    def seen(record: Rules) -> bool:
        return any(all(row.get(key) == value for key, value in record.items()) for row in rows)

    wanted = all(seen(record) for record in expected.get("expect") or [])
    return float(wanted and not any(seen(record) for record in expected.get("unexpect") or []))


@metric("compare_csv")
def compare_csv(
    found: Path, expected: Path | list[Path], *, strict: bool = True, ignore_case: bool = False
) -> float:
    """Same lines as the expected file, or one of several; not `strict`: blanks around lines do not matter."""

    def plain(path: Path) -> list[str]:
        lines = readers.lines(path)
        if not strict:
            lines = [line.strip() for line in lines if line.strip()]
        return [line.lower() for line in lines] if ignore_case else lines

    candidates = expected if isinstance(expected, list) else [expected]
    return float(any(plain(found) == plain(candidate) for candidate in candidates))


@metric("run_sqlite3")
def run_sqlite3(found: Path, expected: Rules) -> float:
    """The query's first value, as a number."""
    rows = readers.rows(found, str(expected["sql"]))
    return float(bool(rows) and float(rows[0][0] or 0))
