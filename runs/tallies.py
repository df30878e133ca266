"""Are the totals that triggers keep what the rows come to? `manage.py check_totals` and the tests ask."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.db import connection
from django.db.models import Model

from console.models import LedgerTally
from desktops.models import ComputerTally

from .models import NoVerdict, ReasonTally, TaskTally

# Each has a view `…_counted` of the same columns, and is unique by the fields named.
KEPT: Final[dict[type[Model], tuple[str, ...]]] = {
    TaskTally: ("run_id", "task_id"),
    ReasonTally: ("run_id", "reason"),
    NoVerdict: ("run_id", "reason", "number", "attempt_id"),
    ComputerTally: ("group", "worker_id"),
    LedgerTally: ("budget_id", "span", "since"),
}
VALUES: Final[dict[type[Model], tuple[str, ...]]] = {
    TaskTally: ("finished", "valid", "success"),
    ReasonTally: ("count",),
    NoVerdict: (),
    ComputerTally: ("started", "stopped"),
    LedgerTally: ("entries", "seconds", "cost"),
}
SHOWN: Final = 20


class Difference(NamedTuple):
    """What is kept and what was counted, None where there is no such row, of one key."""

    table: str
    key: tuple[object, ...]
    kept: tuple[object, ...] | None
    counted: tuple[object, ...] | None


def differences() -> list[Difference]:
    """At most SHOWN of each table; none: all is well. It reads every row, so it takes its time."""
    return [found for model in KEPT for found in _compare(model)]


def _compare(model: type[Model]) -> list[Difference]:
    table, keys, values = model._meta.db_table, KEPT[model], VALUES[model]
    # A row whose every value has come back to zero says what no row says.
    some = " OR ".join(f'"{name}" <> 0' for name in values) or "true"
    wanted = ", ".join(f'"{name}"' for name in (*keys, *values))
    shown = [*keys, *values]
    columns = ", ".join(f'{side}."{name}"' for side in ("kept", "counted") for name in shown)
    same = " AND ".join(f'kept."{name}" = counted."{name}"' for name in keys)
    other = " OR ".join(f'kept."{name}" <> counted."{name}"' for name in values) or "false"
    query = f"""
        SELECT {columns}
        FROM (SELECT {wanted} FROM {table} WHERE {some}) AS kept
        FULL JOIN (SELECT {wanted} FROM {table}_counted) AS counted ON {same}
        WHERE kept."{keys[0]}" IS NULL OR counted."{keys[0]}" IS NULL OR {other} LIMIT {SHOWN}
    """  # noqa: S608 (names of our own models)
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows = cursor.fetchall()
    found = []
    for row in rows:
        kept, counted = row[: len(shown)], row[len(shown) :]
        key = kept if kept[0] is not None else counted
        found.append(
            Difference(
                table,
                key[: len(keys)],
                kept[len(keys) :] if kept[0] is not None else None,
                counted[len(keys) :] if counted[0] is not None else None,
            )
        )
    return found
