"""Keyset pages: `before` and `after` name a row, so any page costs the same and none slips while rows come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import QueryDict

from console.keyset import first_rows

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True)
class Page(Generic[Row]):
    """`newer` and `older` are query strings of the neighbours, or empty."""

    rows: Sequence[Row]
    newer: str
    older: str


def query_with(asked: QueryDict, **values: object) -> str:
    """The address's query with `before` and `after` gone and these put in."""
    query = asked.copy()
    for gone in ("before", "after", *values):
        query.pop(gone, None)
    for name, value in values.items():
        query[name] = str(value)
    return f"?{query.urlencode()}"


def typed_number(text: str) -> int | None:
    """The whole number that an address names; None for anything else, endless digits too."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def by_number(
    found: QuerySet[Row],
    asked: QueryDict,
    *,
    rows: int,
    field: str,
    ranges: Sequence[Q] = (),
) -> Page[Row]:
    """Newest (highest) first. `before=N`: below N; `after=N`: above N, still newest first.

    `ranges`: see console.keyset.
    """
    after, before = typed_number(asked.get("after", "")), typed_number(asked.get("before", ""))
    if after is not None:
        taken = first_rows(found.filter(**{f"{field}__gt": after}), [field], rows + 1, ranges)
        more = len(taken) > rows
        shown = taken[:rows][::-1]
        has_newer, has_older = more, True
    else:
        if before is not None:
            found = found.filter(**{f"{field}__lt": before})
        taken = first_rows(found, [f"-{field}"], rows + 1, ranges)
        shown = taken[:rows]
        has_newer, has_older = before is not None, len(taken) > rows
    if not shown:
        return Page([], "", "")
    first, last = getattr(shown[0], field), getattr(shown[-1], field)
    return Page(
        shown,
        query_with(asked, after=first) if has_newer else "",
        query_with(asked, before=last) if has_older else "",
    )
