"""Keyset pages: `before` and `after` name a row, so any page costs the same and none slips while rows come."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import QueryDict

from console.keyset import beyond, first_rows

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

    def read(mark: str) -> list[int] | None:
        number = typed_number(mark)
        return None if number is None else [number]

    return _page(found, asked, (f"-{field}",), read, lambda row: str(getattr(row, field)), rows, ranges)


def by_moment(found: QuerySet[Row], asked: QueryDict, *, rows: int, field: str) -> Page[Row]:
    """Newest first by a time, rows of one moment by their id (a UUID). A mark is `time~id`."""

    def mark(row: Row) -> str:
        return f"{getattr(row, field).isoformat()}~{row.pk}"

    return _page(found, asked, (f"-{field}", "pk"), _typed_moment, mark, rows)


def _typed_moment(mark: str) -> list[datetime | uuid.UUID] | None:
    moment, _, pk = mark.partition("~")
    try:
        at, found = datetime.fromisoformat(moment), uuid.UUID(pk)
    except ValueError:
        return None
    return [at, found] if at.tzinfo else None


def _page(
    found: QuerySet[Row],
    asked: QueryDict,
    order: Sequence[str],
    read: Callable[[str], Sequence[Any] | None],
    mark: Callable[[Row], str],
    rows: int,
    ranges: Sequence[Q] = (),
) -> Page[Row]:
    after, before = read(asked.get("after", "")), read(asked.get("before", ""))
    if after is not None:
        back = [name[1:] if name.startswith("-") else f"-{name}" for name in order]
        taken = first_rows(found.filter(beyond(back, after)), back, rows + 1, ranges)
        more = len(taken) > rows
        shown = taken[:rows][::-1]
        has_newer, has_older = more, True
    else:
        if before is not None:
            found = found.filter(beyond(order, before))
        taken = first_rows(found, order, rows + 1, ranges)
        shown = taken[:rows]
        has_newer, has_older = before is not None, len(taken) > rows
    if not shown:
        return Page([], "", "")
    return Page(
        shown,
        query_with(asked, after=mark(shown[0])) if has_newer else "",
        query_with(asked, before=mark(shown[-1])) if has_older else "",
    )
