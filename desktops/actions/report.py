"""What workers say: hello, heartbeats and records. Each record is applied at most once and under its epoch."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import connections, transaction
from django.utils import timezone

from console.doorbell import ring
from console.models import Token
from console.redaction import redacted
from desktops.models import Assignment, Worker
from desktops.protocol import messages

from .intake import as_uuid, take

Status = Assignment.Status


@transaction.atomic
def connect(*, token: Token, hello: messages.Hello, connection: uuid.UUID) -> Worker:
    """The worker is here, with this spool. The newest socket of a spool speaks for it. Raises NameTaken."""
    worker, _ = Worker.objects.select_for_update(no_key=True).get_or_create(
        workspace=token.workspace, name=hello.name
    )
    instance = uuid.UUID(hello.instance)
    if worker.instance not in (None, instance) and worker.is_connected:
        raise NameTaken(
            f"Another worker named {hello.name} is connected, with a data folder of its own. "
            "Give each worker a DESKYARD_WORKER_NAME of its own."
        )
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
        setattr(worker, name, redacted(getattr(hello, name)))
    worker.cpus, worker.memory_mb = hello.cpus, hello.memory_mb
    worker.images = [image.model_dump() for image in hello.images]
    worker.connected, worker.connection, worker.last_seen_at = True, connection, timezone.now()
    worker.left_at = worker.removed_at = None
    worker.save()
    _renew(worker, hello.held)
    ring("supervisor")  # somebody may have waited for it
    return worker


def disconnect(*, worker: Worker, connection: uuid.UUID) -> None:
    """The socket closed. Leases go on until they run out: a short cut loses nothing."""
    Worker.objects.filter(pk=worker.pk, connection=connection).update(connected=False)


@transaction.atomic
def heartbeat(*, worker: Worker, connection: uuid.UUID, beat: messages.Heartbeat) -> None:
    """Extend the leases it names; one that is leaving gets no more. Raises Superseded.

    Does not wait for the disk: after a crash of the database's machine the next one says the same again.
    """
    with connections["default"].cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit TO off")
    now = timezone.now()
    facts = {
        "last_seen_at": now,
        "connected": not beat.leaving,
        "left_at": now if beat.leaving else None,
        "removed_at": None,  # it was not gone for good
        "disk_free_mb": beat.disk_free_mb,
        "ready_desktops": beat.ready,
    }
    if beat.images:
        facts["images"] = [image.model_dump() for image in beat.images]
    if beat.swept_at:
        facts |= {"swept_at": beat.swept_at, "swept_left": beat.swept_left}
    if not Worker.objects.filter(pk=worker.pk, connection=connection).update(**facts):
        raise Superseded
    _renew(worker, beat.held)


def _renew(worker: Worker, held: list[messages.Held]) -> None:
    named = {as_uuid(item.assignment): item for item in held}
    rows = (
        Assignment.objects.select_for_update(no_key=True)
        .filter(worker=worker, pk__in=named)
        .live()
        .order_by("pk")
    )
    current = []
    for row in rows:
        if row.epoch != named[row.pk].epoch:
            continue
        current.append(row.pk)
        told = named[row.pk].paid_until
        if told is not None and told != row.told_until:
            Assignment.objects.filter(pk=row.pk).update(told_until=min(told, row.paid_until))
    until = timezone.now() + timedelta(seconds=messages.LEASE_SECONDS)
    Assignment.objects.filter(pk__in=current).update(lease_until=until)
    Assignment.objects.filter(pk__in=current, status=Status.OFFERED).update(status=Status.HELD)


@dataclass(frozen=True)
class Applied:
    number: int
    refused: list[messages.Refused]


class NameTaken(Exception):
    """Another worker of this name is there; two would take turns and lose each other's work."""


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
    applied, due, gaps = row.applied, [], []
    for item in report.items:
        if item.number <= applied:
            continue
        if item.number != applied + 1:
            detail = f"Expected number {applied + 1}."
            gaps.append(messages.Refused(code="gap", detail=detail, number=item.number))
            break
        due.append(item)
        applied = item.number
    refused = take(row, due)
    Worker.objects.filter(pk=row.pk).update(applied=applied, last_seen_at=timezone.now())
    return Applied(applied, refused + gaps)
