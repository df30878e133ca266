"""One value against one rule {method, ref}: the small language inside several of the format's metrics."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def matches(value: Any, rule: Mapping[str, Any]) -> bool:
    """Whether a value satisfies a rule.

    Methods: eq ne lt le gt ge; re, with flags as in re.I.S; range.co and its like (open or closed ends);
    str_list_eq and str_set_eq (value split at commas). Raises ValueError for another one.
    """
    method, reference = str(rule["method"]), rule["ref"]
    head, *tail = method.split(".")
    if head in _COMPARE:
        try:
            return bool(_COMPARE[head](value, reference))
        except TypeError:
            return False  # a text is neither less nor greater than a number
    if head == "re":
        flags = 0
        for name in tail:
            flags |= int(getattr(re, name))
        return re.search(str(reference), str(value), flags) is not None
    if head == "range":
        return _in_range(value, reference, tail[0] if tail else "cc")
    if head in ("str_list_eq", "str_set_eq"):
        found, wanted = _split(value), _split(reference)
        return found == wanted if head == "str_list_eq" else set(found) == set(wanted)
    raise ValueError(f"no such matching method: {method}")


def _in_range(value: Any, ends: Any, kind: str) -> bool:
    low, high = ends
    try:
        above = value >= low if kind[0] == "c" else value > low
        below = value <= high if kind[1] == "c" else value < high
    except TypeError:
        return False
    return bool(above and below)


def _split(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else list(value or [])
    return [str(part).strip() for part in parts]
