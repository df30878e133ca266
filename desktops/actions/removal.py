"""Take a worker that has left for good off the list. What it played stays; should it connect again, it is back."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from console.actions.audit import record
from console.actions.workspaces import require_manager
from console.actor import Actor
from console.doorbell import ring
from desktops.models import Assignment, Computer, State, Worker

from .states import no_longer_wanted


class StillHere(Exception):
    """The worker cannot be removed; the message says what is in the way."""


@transaction.atomic
def remove_worker(worker: Worker, *, actor: Actor) -> Worker:
    """Removing twice changes nothing. Raises NotAllowed; StillHere."""
    require_manager(worker.workspace, actor, what="remove workers")
    row: Worker = Worker.objects.select_for_update(no_key=True).get(pk=worker.pk)
    if row.removed_at is not None:
        return row
    if why := in_the_way(row):
        raise StillHere(why)
    row.removed_at = timezone.now()
    row.save(update_fields=["removed_at"])
    no_longer_wanted(State.objects.filter(worker=row).held())
    record(workspace=worker.workspace, actor=actor, action="worker.removed", subject=f"worker {row.name}")
    ring("supervisor", f"workspace.{worker.workspace.slug}")
    return row


def in_the_way(worker: Worker) -> str:
    """Of removing it, and what to do about that; empty when nothing is."""
    if worker.is_connected:
        return f"{worker.name} is connected. Stop it on its machine first."
    computers = Computer.objects.filter(worker=worker).held().count()
    if computers or Assignment.objects.filter(worker=worker).live().exists():
        what = f"{computers} desktop{'s' * (computers != 1)}" if computers else "work"
        return f"{worker.name} holds {what} still. Wait until that is seen to have ended."
    states = State.objects.filter(worker=worker).held().exclude(origin__in=State.REMADE).count()
    if states:
        what = f"{states} saved desktop{'s' * (states != 1)}"
        return f"{worker.name} has {what} on its disk. Delete what nobody needs any longer first."
    return ""
