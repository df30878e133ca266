"""The first rows of a long list in order, when what is asked for is spread over several ranges of an index.

A condition such as "one of these kinds" gives an index no order: PostgreSQL would read all of it and sort, or walk the
whole list past what does not match. So each range is asked for its first rows, and the first of these are the answer:
a page costs the same however long the list is and however rare what is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)


def first_rows(found: QuerySet[Row], order: Sequence[str], rows: int, ranges: Sequence[Q] = ()) -> list[Row]:
    """`order`: names of fields, "-" for falling. `ranges` must not overlap; none: `found` is one range. Two queries."""
    if not ranges:
        return list(found.order_by(*order)[:rows])
    names = [name.lstrip("-") for name in order]
    parts = [found.filter(one).order_by(*order).values_list(*names, "pk")[:rows] for one in ranges]
    nearest: QuerySet[Any, Any] = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    pks = (
        [row[-1] for row in nearest.order_by(*order)[:rows]]
        if len(parts) > 1
        else [row[-1] for row in nearest]
    )
    return list(found.filter(pk__in=pks).order_by(*order)) if pks else []


def beyond(key: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows after `values`: k1 > v1, or k1 = v1 and k2 > v2, …; for an index, k1 ≥ v1 says again where it begins."""
    after, same, start = Q(), Q(), Q()
    for name, value in zip(key, values, strict=True):
        field, way = name.lstrip("-"), "lt" if name.startswith("-") else "gt"
        start = start or Q(**{f"{field}__{way}e": value})
        after |= same & Q(**{f"{field}__{way}": value})
        same &= Q(**{field: value})
    return start & after if len(key) > 1 else after
