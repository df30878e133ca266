"""Records of a worker become rows: a batch at a time, each record under the epoch it names.

1. Read every record; what is no record is refused, and so is one about an assignment of somebody else.
2. Lock what the assignments belong to, then the assignments, each in one order.
3. Apply the records in memory, in order. What the batch has changed is written at its end, a statement a table.
4. Should the database refuse it, take the two halves one after the other: so the one bad record is found and refused,
   and sinks nothing else.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from django.core.exceptions import ValidationError as InvalidValue
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone
from pydantic import ValidationError

from console.models import Budget
from console.redaction import redact
from desktops.handlers import BadRecord, Batch, Handler, UnknownKind, handler_for, records_of
from desktops.models import Assignment, Computer, Worker
from desktops.protocol import attempt as protocol
from desktops.protocol import messages

from .books import Books, keep_books

log = logging.getLogger(__name__)
# Fields of a record that only hold what has a form of its own, which is checked.
FORMED: Final = {"kind", "at", "screenshot"}


# What names the desktop that it is about.
OF_COMPUTER: Final = protocol.ComputerReady | protocol.ComputerStopped | protocol.StateSaved | protocol.Forked


class _Said(NamedTuple):
    item: messages.SpoolItem
    assignment: uuid.UUID
    handler: Handler
    record: Any  # of its kind's records, one


def take(worker: Worker, items: Sequence[messages.SpoolItem]) -> list[messages.Refused]:
    """Apply the items in order; those that cannot be used come back, by number. The worker's row is locked."""
    refused: list[messages.Refused] = []
    said: list[_Said] = []
    named = {item.assignment: as_uuid(item.assignment) for item in items}
    own = Assignment.objects.filter(worker=worker, pk__in={pk for pk in named.values() if pk is not None})
    kinds = dict(own.values_list("pk", "kind"))
    for item in items:
        assignment = named[item.assignment]
        if assignment is None or assignment not in kinds:
            detail = "This worker has no such assignment."
            refused.append(_refuse(worker, item, "unknown_assignment", detail))
            continue
        try:
            handler, adapter = handler_for(kinds[assignment]), records_of(kinds[assignment])
            record = adapter.validate_python(_storable(item.record))
        except (ValidationError, UnknownKind) as error:
            refused.append(_refuse(worker, item, "bad_record", str(error)))
            continue
        said.append(_Said(item, assignment, handler, record))
    refused += _halving(worker, said)
    return sorted(refused, key=lambda problem: problem.number or 0)


def as_uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _halving(worker: Worker, said: Sequence[_Said]) -> list[messages.Refused]:
    if not said:
        return []
    try:
        with transaction.atomic():
            return _apply(worker, said)
    except (BadRecord, InvalidValue, DataError, IntegrityError, ValueError) as error:
        if len(said) == 1:
            return [_refuse(worker, said[0].item, "bad_record", str(error))]
    middle = len(said) // 2
    return _halving(worker, said[:middle]) + _halving(worker, said[middle:])


def _apply(worker: Worker, said: Sequence[_Said]) -> list[messages.Refused]:
    refused = []
    by_handler: dict[Handler, set[uuid.UUID]] = defaultdict(set)
    for one in said:
        by_handler[one.handler].add(one.assignment)
    with ExitStack() as stack:
        batches = {
            handler: stack.enter_context(handler.batch(pks))
            for handler, pks in sorted(by_handler.items(), key=lambda item: type(item[0]).__name__)
        }
        assignments = _locked(worker, {one.assignment for one in said})
        started = [one.record for one in said if isinstance(one.record, protocol.ComputerStarted)]
        starting = {pk for record in started if (pk := as_uuid(record.computer)) is not None}
        # Entered last, so that desktops are written before what refers to them.
        books = stack.enter_context(keep_books(assignments.values(), starting))
        for one in said:
            if not _record(one, assignments[one.assignment], batches[one.handler], books):
                detail = "The lease on this assignment has ended; its results are not used."
                refused.append(_refuse(worker, one.item, "stale_epoch", detail))
    return refused


def _locked(worker: Worker, pks: set[uuid.UUID]) -> dict[uuid.UUID, Assignment]:
    rows = Assignment.objects.select_for_update(no_key=True).filter(pk__in=pks).order_by("pk")
    assignments = {row.pk: row for row in rows.defer("payload")}
    budgets = Budget.objects.in_bulk({row.budget_id for row in assignments.values()})
    for row in assignments.values():
        row.worker, row.workspace, row.budget = worker, worker.workspace, budgets[row.budget_id]
    return assignments


def _record(one: _Said, assignment: Assignment, batch: Batch, books: Books) -> bool:
    """Apply one record; False when its epoch, or its assignment, is over."""
    record = one.record
    stale = one.item.epoch != assignment.epoch or assignment.status not in Assignment.LIVE
    computer = None
    if isinstance(record, protocol.ComputerStarted):
        known = as_uuid(record.computer) in books.computers
        computer = books.started(assignment, record)
        if stale and not known:
            batch.computer_told_late(assignment, computer)
    elif isinstance(record, OF_COMPUTER):
        named = as_uuid(record.computer)
        computer = books.computers.get(named) if named is not None else None
        if computer is not None and computer.assignment_id != assignment.pk:
            computer = None
    if stale:
        # Results that come too late are refused. That a desktop existed, or is gone, stays true: money follows it.
        if isinstance(record, protocol.ComputerStopped) and computer is not None:
            _stopped(assignment, computer, record, batch, books)
            return True
        return False
    if isinstance(record, protocol.ComputerReady) and computer is not None:
        books.ready(computer, record)
    last = batch.record(assignment, record, computer)
    if isinstance(record, protocol.ComputerStopped) and computer is not None:
        _stopped(assignment, computer, record, batch, books)
    if last:
        books.end(assignment, status=Assignment.Status.ENDED, at=timezone.now())
    return True


def _stopped(
    assignment: Assignment,
    computer: Computer,
    record: protocol.ComputerStopped,
    batch: Batch,
    books: Books,
) -> None:
    cost = books.stopped(assignment, computer, at=record.at, reason=record.reason)
    if cost is not None:
        batch.computer_settled(assignment, computer, cost)


def _storable(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a mark in place of each NUL, which PostgreSQL's texts may not have, and of each secret: a desktop
    shows whatever is typed and read in it. Nearly every record has neither, which one look at all its texts tells."""
    texts: list[str] = []
    _collect([value for name, value in record.items() if name not in FORMED], texts)
    text = "\n".join(texts)
    if "\x00" not in text and redact(text) == text:
        return record
    marked: dict[str, Any] = _marked(record)
    return marked


def _collect(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, list):
        for part in value:
            _collect(part, texts)
    elif isinstance(value, dict):
        texts.extend(value)
        for part in value.values():
            _collect(part, texts)


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value.replace("\x00", "\ufffd"))
    if isinstance(value, list):
        return [_marked(part) for part in value]
    if isinstance(value, dict):
        return {_marked(name): _marked(part) for name, part in value.items()}
    return value


def _refuse(worker: Worker, item: messages.SpoolItem, code: str, detail: str) -> messages.Refused:
    log.warning("Refused item %s of %s: %s (%s)", item.number, worker, code, detail)
    return messages.Refused(code=code, detail=detail[:1000], number=item.number, assignment=item.assignment)
