"""Metrics on spreadsheets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers
from desktops.worker.checkers.errors import Unreadable

from .registry import metric

Rules = Mapping[str, Any]


@metric("check_cells")
def check_cells(found: Path, expected: Rules) -> float:
    """The share of conditions on cells that hold, all or nothing: 1 or 0.

    `sheet` (name; default the first), `values` (cell → value), `formulas` (cell → formula, or true for any),
    `bold` (cells), `absent` (cells that must be empty).
    """
    values = _sheet(readers.workbook(found, values=True), expected.get("sheet"))
    formulas = _sheet(readers.workbook(found, values=False), expected.get("sheet"))
    for cell, wanted in (expected.get("values") or {}).items():
        if not _same(values[cell].value, wanted):
            return 0.0
    for cell, wanted in (expected.get("formulas") or {}).items():
        got = formulas[cell].value
        if not isinstance(got, str) or not got.startswith("="):
            return 0.0
        if wanted is not True and got.replace(" ", "").upper() != str(wanted).upper():
            return 0.0
    if any(not formulas[cell].font.b for cell in expected.get("bold") or []):
        return 0.0
    return float(all(values[cell].value is None for cell in expected.get("absent") or []))


@metric("check_sheet_names")
def check_sheet_names(found: Path, expected: Rules) -> float:
    """The sheets have exactly these names, in this order."""
    return float(readers.workbook(found, values=True).sheetnames == list(expected["names"]))


def _sheet(book: Any, name: str | None) -> Any:
    if name is None:
        return book.worksheets[0]
    if name not in book.sheetnames:
        raise Unreadable(f"the workbook has no sheet {name!r}")
    return book[name]


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return isinstance(found, int | float) and abs(found - wanted) < 1e-9
    return bool(found == wanted)
