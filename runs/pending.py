"""What a batch of records changes is written at its end: a statement a table, in place of some for each record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.db import connection
from django.db.models import Model

from console.doorbell import ring
from desktops.models import Computer

if TYPE_CHECKING:
    from .models import Event, Run, Step


def write(run: Run, row: Model, *fields: str) -> None:
    """Save these fields of one of the run's rows, or leave it to the end of the run's batch."""
    if run.pending is None:
        row.save(update_fields=fields)
    else:
        run.pending.note(row, fields)


class Pending:
    """Everything one batch has to write of one run. Rows noted are the only copies of theirs in the transaction."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.steps: list[Step] = []
        self.screens: dict[Any, str] = {}  # computer → the last screenshot
        self.bells: dict[str, None] = {}
        self._changed: dict[type[Model], dict[Any, Model]] = {}
        self._fields: dict[type[Model], dict[str, None]] = {}

    def note(self, row: Model, fields: Iterable[str]) -> None:
        self._changed.setdefault(type(row), {})[row.pk] = row
        self._fields.setdefault(type(row), {}).update(dict.fromkeys(fields))

    def flush(self) -> None:
        for model, rows in self._changed.items():
            update_rows(list(rows.values()), list(self._fields[model]))
        insert_rows(self.steps)
        insert_rows(self.events)
        if self.screens:
            update_rows(
                [Computer(pk=pk, last_screenshot=shown) for pk, shown in self.screens.items()],
                ["last_screenshot"],
            )
        ring(*self.bells)


def insert_rows(rows: Sequence[Model]) -> None:
    """By COPY: a few microseconds a row. Keys that the database gives are not read back."""
    if not rows:
        return
    meta = rows[0]._meta
    fields = [
        field for field in meta.local_concrete_fields if not field.primary_key or rows[0].pk is not None
    ]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    statement = f"COPY {meta.db_table} ({columns}) FROM STDIN"
    # What COPY reports comes from below Django, which only wraps the errors of `execute`.
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(
                [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
            )


def update_rows(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Write these fields of rows of one model in one statement."""
    meta = rows[0]._meta
    assert meta.pk is not None
    columns = [meta.pk, *(meta.get_field(name) for name in fields)]
    one = ", ".join(f"%s::{field.db_type(connection)}" for field in columns)
    names = ", ".join(f'"{field.column}"' for field in columns)
    changes = ", ".join(f'"{field.column}" = new."{field.column}"' for field in columns[1:])
    values = [
        field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows for field in columns
    ]
    statement = (
        f"UPDATE {meta.db_table} AS old SET {changes} "  # noqa: S608 (names of our own models)
        f"FROM (VALUES {', '.join(f'({one})' for _ in rows)}) AS new ({names}) "
        f'WHERE old."{meta.pk.column}" = new."{meta.pk.column}"'
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
