"""Many rows of one model written in one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import DecimalField, Field, JSONField, Model

# Fields whose values the driver cannot write as they are.
PREPARED = (JSONField, ArrayField, DecimalField)


def insert_rows(model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """By COPY, a few microseconds a row. A row has its columns by their names in Python (`attname`), all of one set:
    those left out are the database's to give, and are not read back."""
    if not rows:
        return
    meta = model._meta
    fields = [field for field in meta.local_concrete_fields if field.attname in rows[0]]
    named = [(field.attname, _prepared(field)) for field in fields]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    statement = f"COPY {meta.db_table} ({columns}) FROM STDIN"
    # What COPY reports comes from below Django, which only wraps the errors of `execute`.
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(
                [
                    row[name] if prepared is None else prepared(row[name], connection)
                    for name, prepared in named
                ]
            )


def columns_of(row: Model) -> dict[str, Any]:
    """A row not stored yet, as `insert_rows` takes it."""
    return {
        field.attname: getattr(row, field.attname)
        for field in row._meta.local_concrete_fields
        if not field.generated and (not field.primary_key or row.pk is not None)
    }


def _prepared(field: Field[Any, Any]) -> Callable[[Any, Any], Any] | None:
    return field.get_db_prep_save if isinstance(field, PREPARED) else None


def update_rows(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Write these fields of rows of one model."""
    if not rows:
        return
    meta = rows[0]._meta
    assert meta.pk is not None
    by_name = {field.name: field for field in meta.local_concrete_fields}
    columns = [meta.pk, *(by_name[name] for name in fields)]
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
