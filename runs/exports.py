"""A run's attempts as CSV, JSON lines or Parquet, and its events as JSON lines: the API's fields, row by row.

One definition: `COLUMNS` names the columns of every format, `_row` gives their values, which are the API's. CSV and
Parquet are made from the very rows that are the JSON lines.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import IO, Any, Final, Literal, TypeVar

from django.db.models import QuerySet
from django.urls import register_converter

from console.api.signing import canonical
from console.sheets import csv_line
from console.streaming import Streamed
from runs.models import Attempt, Event, Run
from runs.provenance.lines import at, event_line

Format = Literal["csv", "jsonl", "parquet"]
Kind = Literal["text", "count", "number", "time", "texts"]
FORMATS: Final[dict[Format, str]] = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
WORDS: Final[dict[Format, str]] = {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}
COLUMNS: Final[dict[str, Kind]] = {
    "id": "text",
    "run": "text",
    "number": "count",
    "task": "text",
    "round": "count",
    "copy": "count",
    "fork": "count",
    "fork_method": "text",
    "prefix": "text",
    "status": "text",
    "verifier": "text",
    "outcome": "text",
    "reward": "number",
    "invalid_reasons": "texts",
    "checker_error": "text",
    "steps": "count",
    "duration_seconds": "number",
    "computer": "text",
    "computer_id": "text",
    "worker": "text",
    "tries": "count",
    "started_at": "time",
    "ended_at": "time",
}
# What the database is asked for, in the order in which `_row` takes it.
FIELDS: Final = (
    "number",
    "id",
    "run_id",
    "task__task_id",
    "round",
    "copy",
    "fork",
    "fork_method",
    "prefix_id",
    "status",
    "verifier",
    "outcome",
    "reward",
    "invalid_reasons",
    "checker_error",
    "steps",
    "computer__number",
    "computer_id",
    "worker__name",
    "tries",
    "started_at",
    "ended_at",
)
CHUNK: Final = 2_000
# Rows of Parquet that are held before they are written.
GROUP: Final = 20_000

Row = dict[str, Any]
T = TypeVar("T")


class FormatConverter:
    """Of addresses: `attempts.<export:form>`."""

    regex = "|".join(FORMATS)

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(FormatConverter, "export")


def attempts_file(run: Run, attempts: QuerySet[Attempt], form: Format) -> Streamed:
    """The attempts of `attempts`, by number, as a download."""
    makers: dict[Format, Callable[[Iterable[Row]], Iterator[bytes]]] = {
        "csv": _csv,
        "jsonl": _json_lines,
        "parquet": _parquet,
    }
    filename = f"run-{run.number}-attempts.{form}"
    return Streamed(makers[form](attempt_rows(attempts)), content_type=FORMATS[form], filename=filename)


def events_file(run: Run, events: QuerySet[Event]) -> Streamed:
    """One canonical JSON object a line. The whole log hashes to the digest in the run's signed manifest."""
    fields = ("seq", "at", "kind", "version", "attempt_number", "data")
    rows = _by_key(events.order_by("seq").values_list(*fields), "seq")
    pieces = _joined(canonical(event_line(*row)) + b"\n" for row in rows)
    return Streamed(pieces, content_type=FORMATS["jsonl"], filename=f"run-{run.number}-events.jsonl")


def attempt_rows(attempts: QuerySet[Attempt]) -> Iterator[Row]:
    for values in _by_key(attempts.order_by("number").values_list(*FIELDS), "number"):
        yield _row(*values)


def _row(
    number: int,
    id: Any,
    run: Any,
    task: str,
    round: int,
    copy: int,
    fork: int,
    fork_method: str,
    prefix: Any,
    status: str,
    verifier: str,
    outcome: str | None,
    reward: float | None,
    invalid_reasons: list[str],
    checker_error: str,
    steps: int,
    computer: int | None,
    computer_id: Any,
    worker: str | None,
    tries: int,
    started_at: datetime | None,
    ended_at: datetime | None,
) -> Row:
    return {
        "id": str(id),
        "run": str(run),
        "number": number,
        "task": task,
        "round": round,
        "copy": copy,
        "fork": fork,
        "fork_method": fork_method or None,
        "prefix": prefix and str(prefix),
        "status": status,
        "verifier": verifier,
        "outcome": outcome,
        "reward": reward,
        "invalid_reasons": invalid_reasons,
        "checker_error": checker_error or None,
        "steps": steps,
        "duration_seconds": _took(started_at, ended_at),
        "computer": None if computer is None else f"c-{computer:04d}",
        "computer_id": None if computer_id is None else str(computer_id),
        "worker": worker,
        "tries": tries,
        "started_at": at(started_at),
        "ended_at": at(ended_at),
    }


def _took(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds between, as `Attempt.duration_seconds` has them."""
    return None if start is None or end is None else round((end - start).total_seconds(), 3)


def _by_key(rows: QuerySet[Any, tuple[Any, ...]], key: str) -> Iterator[tuple[Any, ...]]:
    """Rows in order of `key`, which is their first value, a CHUNK a query: no cursor and no lock that lasts."""
    chunk = list(rows[:CHUNK])
    while chunk:
        yield from chunk
        chunk = list(rows.filter(**{f"{key}__gt": chunk[-1][0]})[:CHUNK]) if len(chunk) == CHUNK else []


def _joined(lines: Iterable[bytes], lines_a_piece: int = 200) -> Iterator[bytes]:
    """Fewer and larger pieces: each costs a turn of the server."""
    piece: list[bytes] = []
    for line in lines:
        piece.append(line)
        if len(piece) == lines_a_piece:
            yield b"".join(piece)
            piece.clear()
    if piece:
        yield b"".join(piece)


def _json_lines(rows: Iterable[Row]) -> Iterator[bytes]:
    return _joined(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _csv(rows: Iterable[Row]) -> Iterator[bytes]:
    """Empty where there is no value; reasons are parted by a blank."""

    def lines() -> Iterator[bytes]:
        yield csv_line(COLUMNS)
        for row in rows:
            yield csv_line({**row, "invalid_reasons": " ".join(row["invalid_reasons"])}.values())

    return _joined(lines())


class _Pieces(io.RawIOBase):
    """A file to read from, whose bytes are made as they are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _parquet(rows: Iterable[Row]) -> Iterator[bytes]:
    """Written to a file first: its index comes last. Only one group of rows is in memory at a time."""
    import arro3.core as arrow
    from arro3.io import read_json, write_parquet

    types: dict[Kind, Any] = {
        "text": arrow.DataType.string(),
        "count": arrow.DataType.int64(),
        "number": arrow.DataType.float64(),
        "time": arrow.DataType.timestamp("us", tz="UTC"),
        "texts": arrow.DataType.list(arrow.Field("item", arrow.DataType.string())),
    }
    schema = arrow.Schema([arrow.Field(name, types[kind]) for name, kind in COLUMNS.items()])
    with tempfile.TemporaryFile() as file:
        batches = read_json(io.BufferedReader(_Pieces(_json_lines(rows))), schema, batch_size=CHUNK)
        write_parquet(batches, file, compression="zstd(3)", max_row_group_size=GROUP)
        file.seek(0)
        yield from _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(1 << 16):
        yield piece
