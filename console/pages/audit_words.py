"""The details of an audit entry in words: `Spend cap: $0.50 before, $1.00 now`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from console.money import dollars
from console.templatetags.deskyard import short_digest

LABELS: Final = {
    "account": "Account",
    "attempts": "Attempts",
    "begins_with": "Its first characters",
    "cap_usd": "Spend cap",
    "digest": "Digest",
    "events": "Told of",
    "expires": "Expires",
    "fields": "Fields",
    "for": "Acts for",
    "message": "Message",
    "name": "Name",
    "of": "Belonged to",
    "owner": "Owner",
    "rate_usd_per_hour": "Price of a desktop hour",
    "refused": "Refused",
    "reopened": "Times reopened",
    "role": "Role",
    "run_parallelism": "Desktops that one run may hold",
    "scopes": "May",
    "spend_cap_usd": "Spend cap",
    "spend_ceiling_usd": "May spend at most",
    "tasks": "Tasks",
    "time_cap_minutes": "Time cap",
    "wanted": "Wanted",
}
# What a bare `was` tells of, where no field of now stands beside it.
BEFORE: Final = {"run.cancelled": "Status before"}


def details(action: str, detail: Mapping[str, Any]) -> list[str]:
    """One phrase a field, in the order they were noted; a field and what it was before are one phrase."""
    before = {_of_before(name, detail): name for name in detail if "was" in name.split("_")}
    told = []
    for name, value in detail.items():
        label = LABELS.get(name) or name.replace("_", " ").capitalize()
        if name in before:
            told.append(f"{label}: {_value(name, detail[before[name]])} before, {_value(name, value)} now")
        elif name not in before.values():
            told.append(f"{label}: {_value(name, value)}")
        elif _of_before(name, detail) not in detail:
            told.append(f"{BEFORE.get(action, 'Before')}: {_value(name, value)}")
    return told


def _of_before(name: str, detail: Mapping[str, Any]) -> str:
    """Which field `name` tells the value of before of: `spend_cap_was_usd`, `role_was`, or a bare `was`."""
    if name not in ("was", "was_usd"):
        return name.replace("_was", "")
    return next((one for one in ("cap_usd", "rate_usd_per_hour", "role") if one in detail), "")


def _value(name: str, value: Any) -> str:
    if value is None or value == "None":
        return "never" if name == "expires" else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if "usd" in name:
        return _dollars(str(value))
    if name == "digest":
        return short_digest(str(value))
    if name == "time_cap_minutes":
        return f"{value} min"
    if name == "expires":
        return _moment(str(value))
    if name == "was":
        return str(value).replace("_", " ")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _dollars(text: str) -> str:
    try:
        return dollars(Decimal(text))
    except InvalidOperation:
        return text


def _moment(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text):%-d %b %Y, %H:%M} UTC"
    except ValueError:
        return text
