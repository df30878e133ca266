"""What a batch of records changes is written at its end: a statement a table, in place of some for each record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model

from console.bulk import insert_rows, update_rows
from console.doorbell import ring
from desktops.models import Computer

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
        # Rows as console.bulk takes them: there may be a thousand of each.
        self.events: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
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
        insert_rows(Step, self.steps)
        insert_rows(Event, self.events)
        if self.screens:
            update_rows(
                [Computer(pk=pk, last_screenshot=shown) for pk, shown in self.screens.items()],
                ["last_screenshot"],
            )
        ring(*self.bells)
