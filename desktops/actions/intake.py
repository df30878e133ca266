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

from console.redaction import redact
from desktops.handlers import BadRecord, Batch, handler_for
from desktops.models import Assignment, Computer, Worker
from desktops.protocol import attempt as protocol
from desktops.protocol import messages

from .computers import computer_ready, computer_started, computer_stopped
from .lease import end

log = logging.getLogger(__name__)
ABOUT_COMPUTERS: Final = protocol.ComputerStarted | protocol.ComputerReady | protocol.ComputerStopped


class _Said(NamedTuple):
    item: messages.SpoolItem
    assignment: uuid.UUID
    kind: str
    record: protocol.AttemptRecord


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
            record = protocol.record_adapter.validate_python(_storable(item.record))
        except ValidationError as error:
            refused.append(_refuse(worker, item, "bad_record", str(error)))
            continue
        said.append(_Said(item, assignment, kinds[assignment], record))
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
    by_kind: dict[str, set[uuid.UUID]] = defaultdict(set)
    for one in said:
        by_kind[one.kind].add(one.assignment)
    with ExitStack() as stack:
        batches = {
            kind: stack.enter_context(handler_for(kind).batch(pks)) for kind, pks in sorted(by_kind.items())
        }
        rows = Assignment.objects.select_for_update(of=["self"], no_key=True)
        rows = rows.filter(pk__in={one.assignment for one in said})
        assignments = {
            row.pk: row for row in rows.select_related("workspace", "worker", "budget").order_by("pk")
        }
        computers = _computers(said)
        for one in said:
            if not _record(one, assignments[one.assignment], batches[one.kind], computers):
                detail = "The lease on this assignment has ended; its results are not used."
                refused.append(_refuse(worker, one.item, "stale_epoch", detail))
    return refused


def _computers(said: Sequence[_Said]) -> dict[uuid.UUID, Computer]:
    """The computers that are stored already of those that the records name."""
    named = {
        as_uuid(one.record.computer)
        for one in said
        if isinstance(one.record, protocol.ComputerReady | protocol.ComputerStopped)
    }
    if not named - {None}:
        return {}
    return Computer.objects.select_related("worker").in_bulk(list(named - {None}))


def _record(one: _Said, assignment: Assignment, batch: Batch, computers: dict[uuid.UUID, Computer]) -> bool:
    """Apply one record; False when its epoch, or its assignment, is over."""
    record = one.record
    stale = one.item.epoch != assignment.epoch or assignment.status not in Assignment.LIVE
    computer = None
    if isinstance(record, protocol.ComputerStarted):
        computer = computer_started(assignment, record)
        computers[uuid.UUID(str(computer.pk))] = computer
    elif isinstance(record, protocol.ComputerReady | protocol.ComputerStopped):
        computer = computers.get(as_uuid(record.computer) or assignment.pk)
        if computer is not None and computer.assignment_id != assignment.pk:
            computer = None
    if stale:
        # Results that come too late are refused. That a desktop existed, or is gone, stays true: money follows it.
        if isinstance(record, protocol.ComputerStopped) and computer is not None:
            _stopped(assignment, computer, record, batch)
            return True
        return False
    if isinstance(record, protocol.ComputerReady) and computer is not None:
        computer_ready(computer, record)
    last = batch.record(assignment, record, computer)
    if isinstance(record, protocol.ComputerStopped) and computer is not None:
        _stopped(assignment, computer, record, batch)
    if last:
        end(assignment, status=Assignment.Status.ENDED, at=timezone.now())
    return True


def _stopped(
    assignment: Assignment, computer: Computer, record: protocol.ComputerStopped, batch: Batch
) -> None:
    cost = computer_stopped(assignment, computer, at=record.at, reason=record.reason)
    if cost is not None:
        batch.computer_settled(assignment, computer, cost)


def _storable(value: Any) -> Any:
    """The record with a mark in place of each NUL, which PostgreSQL's texts may not have, and of each secret: a desktop
    shows whatever is typed and read in it."""
    if isinstance(value, str):
        return redact(value.replace("\x00", "\ufffd") if "\x00" in value else value)
    if isinstance(value, list):
        return [_storable(part) for part in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(part) for name, part in value.items()}
    return value


def _refuse(worker: Worker, item: messages.SpoolItem, code: str, detail: str) -> messages.Refused:
    log.warning("Refused item %s of %s: %s (%s)", item.number, worker, code, detail)
    return messages.Refused(code=code, detail=detail[:1000], number=item.number, assignment=item.assignment)
