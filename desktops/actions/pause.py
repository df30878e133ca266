"""Pause and resume a worker: a paused one takes no new work and finishes what it plays."""

from __future__ import annotations

from django.db import transaction

from console.actions.audit import record
from console.actions.workspaces import require_manager
from console.actor import Actor
from console.doorbell import ring
from desktops.models import Worker


def pause_worker(worker: Worker, *, actor: Actor) -> Worker:
    """Raises NotAllowed for somebody who does not manage the workspace. Pausing twice changes nothing."""
    return _set(worker, paused=True, actor=actor)


def resume_worker(worker: Worker, *, actor: Actor) -> Worker:
    return _set(worker, paused=False, actor=actor)


@transaction.atomic
def _set(worker: Worker, *, paused: bool, actor: Actor) -> Worker:
    require_manager(worker.workspace, actor, what="pause and resume workers")
    changed = Worker.objects.filter(pk=worker.pk, paused=not paused).update(paused=paused)
    worker.paused = paused
    if changed:
        what = "worker.paused" if paused else "worker.resumed"
        record(workspace=worker.workspace, actor=actor, action=what, subject=f"worker {worker.name}")
        ring("supervisor", f"workspace.{worker.workspace.slug}")
    return worker
