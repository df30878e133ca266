"""Lines of CSV that are safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Final

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Echo:
    """What `csv` writes to, when the row itself is wanted."""

    def write(self, line: str) -> str:
        return line


_writer = csv.writer(_Echo())


def csv_line(values: Iterable[object]) -> bytes:
    """One row, with its line end. Numbers stay numbers; a text that would be a formula gets an apostrophe before it."""
    line: str = _writer.writerow([_cell(value) for value in values])
    return line.encode()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
