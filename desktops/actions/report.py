"""What workers say: hello, heartbeats and records. Each record is applied at most once and under its epoch."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError as InvalidValue
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone
from pydantic import ValidationError

from console.models import Token
from desktops.handlers import BadRecord, handler_for
from desktops.models import Assignment, Computer, Worker
from desktops.protocol import attempt as protocol
from desktops.protocol import messages

from .computers import computer_ready, computer_started, computer_stopped
from .lease import end

log = logging.getLogger(__name__)
Status = Assignment.Status


@transaction.atomic
def connect(*, token: Token, hello: messages.Hello, connection: uuid.UUID) -> Worker:
    """The worker is here, with this spool. The newest socket of a name speaks for it."""
    worker, _ = Worker.objects.select_for_update(no_key=True).get_or_create(
        workspace=token.workspace, name=hello.name
    )
    instance = uuid.UUID(hello.instance)
    if worker.instance != instance:
        worker.instance, worker.applied = instance, 0
    for name in (
        "version",
        "engine",
        "engine_version",
        "isolation",
        "can_fork",
        "cannot_fork_because",
        "slots",
    ):
        setattr(worker, name, getattr(hello, name))
    worker.cpus, worker.memory_mb = hello.cpus, hello.memory_mb
    worker.images = [image.model_dump() for image in hello.images]
    worker.connected, worker.connection, worker.last_seen_at = True, connection, timezone.now()
    worker.save()
    _renew(worker, hello.held)
    return worker


def disconnect(*, worker: Worker, connection: uuid.UUID) -> None:
    """The socket closed. Leases go on until they run out: a short cut loses nothing."""
    Worker.objects.filter(pk=worker.pk, connection=connection).update(connected=False)


@transaction.atomic
def heartbeat(*, worker: Worker, connection: uuid.UUID, beat: messages.Heartbeat) -> None:
    """Extend the leases it names. Raises Superseded."""
    facts = {"last_seen_at": timezone.now(), "connected": True, "disk_free_mb": beat.disk_free_mb}
    if beat.images:
        facts["images"] = [image.model_dump() for image in beat.images]
    if beat.swept_at:
        facts |= {"swept_at": beat.swept_at, "swept_left": beat.swept_left}
    if not Worker.objects.filter(pk=worker.pk, connection=connection).update(**facts):
        raise Superseded
    _renew(worker, beat.held)


def _renew(worker: Worker, held: list[messages.Held]) -> None:
    epochs = {_uuid(item.assignment): item.epoch for item in held}
    rows = (
        Assignment.objects.select_for_update(no_key=True)
        .filter(worker=worker, pk__in=epochs)
        .live()
        .order_by("pk")
    )
    current = [row.pk for row in rows if row.epoch == epochs[row.pk]]
    until = timezone.now() + timedelta(seconds=messages.LEASE_SECONDS)
    Assignment.objects.filter(pk__in=current).update(lease_until=until)
    Assignment.objects.filter(pk__in=current, status=Status.OFFERED).update(status=Status.HELD)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Applied:
    number: int
    refused: list[messages.Refused]


class Superseded(Exception):
    """A newer socket speaks for this worker."""


@transaction.atomic
def apply_report(*, worker: Worker, connection: uuid.UUID, report: messages.Report) -> Applied:
    """Store the items in order; what cannot be used is refused by number and counts as applied. Raises Superseded.

    Items that were stored before are passed over, so sending a report again is harmless. A gap stops at the gap.
    """
    row = Worker.objects.select_for_update(no_key=True).get(pk=worker.pk)
    if row.connection != connection:
        raise Superseded
    applied, refused = row.applied, []
    for item in report.items:
        if item.number <= applied:
            continue
        if item.number != applied + 1:
            refused.append(
                messages.Refused(code="gap", detail=f"Expected number {applied + 1}.", number=item.number)
            )
            break
        problem = _apply(row, item)
        if problem is not None:
            refused.append(problem)
        applied = item.number
    Worker.objects.filter(pk=row.pk).update(applied=applied, last_seen_at=timezone.now())
    return Applied(applied, refused)


def _apply(worker: Worker, item: messages.SpoolItem) -> messages.Refused | None:
    def refuse(code: str, detail: str) -> messages.Refused:
        log.warning("Refused item %s of %s: %s (%s)", item.number, worker, code, detail)
        return messages.Refused(code=code, detail=detail, number=item.number, assignment=item.assignment)

    named = _uuid(item.assignment)
    known = Assignment.objects.filter(pk=named, worker=worker).first() if named else None
    if known is None:
        return refuse("unknown_assignment", "This worker has no such assignment.")
    try:
        with transaction.atomic():  # one bad record must not sink its batch
            handler_for(known.kind).lock(known.subject)
            assignment = (
                Assignment.objects.select_for_update(of=["self"], no_key=True)
                .select_related("workspace")
                .get(pk=known.pk)
            )
            return _apply_record(assignment, item, refuse)
    except (BadRecord, ValidationError, InvalidValue, DataError, IntegrityError, ValueError) as error:
        return refuse("bad_record", str(error)[:1000])


def _storable(value: Any) -> Any:
    """The record with a mark in place of each NUL: what a desktop holds may have them, PostgreSQL's texts may not."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, list):
        return [_storable(part) for part in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(part) for name, part in value.items()}
    return value


def _apply_record(assignment: Assignment, item: messages.SpoolItem, refuse) -> messages.Refused | None:  # type: ignore[no-untyped-def]
    item = item.model_copy(update={"record": _storable(item.record)})
    record = protocol.record_adapter.validate_python(item.record)
    stale = item.epoch != assignment.epoch or assignment.status not in Assignment.LIVE
    computer = None
    if isinstance(record, protocol.ComputerStarted | protocol.ComputerReady | protocol.ComputerStopped):
        computer = _computer(assignment, record)
    if stale:
        # Results that come too late are refused. That a desktop existed, or is gone, stays true: money follows it.
        if isinstance(record, protocol.ComputerStopped) and computer is not None:
            computer_stopped(assignment, computer, at=record.at, reason=record.reason)
            return None
        return refuse("stale_epoch", "The lease on this assignment has ended; its results are not used.")
    if isinstance(record, protocol.ComputerReady) and computer is not None:
        computer_ready(computer, record)
    last = handler_for(assignment.kind).record(assignment, item.record, computer)
    if isinstance(record, protocol.ComputerStopped) and computer is not None:
        computer_stopped(assignment, computer, at=record.at, reason=record.reason)
    if last:
        end(assignment, status=Status.ENDED, at=timezone.now())
    return None


def _computer(assignment: Assignment, record: protocol.AttemptRecord) -> Computer | None:
    if isinstance(record, protocol.ComputerStarted):
        return computer_started(assignment, record)
    return Computer.objects.filter(pk=record.computer, assignment=assignment).first()  # type: ignore[union-attr]
