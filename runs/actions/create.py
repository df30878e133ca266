"""A run is stored: queued, with a budget of its own, and nothing played yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from console.actions.audit import record
from console.actions.budgets import open_budget
from console.actor import Actor
from console.doorbell import ring
from console.models import Workspace
from runs import spec
from runs.events import RunCreated, append
from runs.models import Run


def create_run(*, workspace: Workspace, document: Mapping[str, Any], actor: Actor) -> Run:
    """Store the run that the document describes. Raises spec.SpecRejected, and then nothing is stored."""
    checked = spec.check(document, workspace=workspace)
    with transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(last_run_number=F("last_run_number") + 1)
        number = Workspace.objects.values_list("last_run_number", flat=True).get(pk=workspace.pk)
        run = Run.objects.create(
            workspace=workspace,
            number=number,
            name=checked.spec["name"],
            kind=checked.spec["kind"],
            spec=checked.spec,
            task_ids=[task.pk for task in checked.tasks],
            task_set=checked.task_set,
            template_version=checked.template_version,
            budget=open_budget(workspace=workspace, cap=checked.spend_cap, under=actor.budget),
            time_cap_minutes=checked.spec["time_cap_minutes"],
            planned=checked.planned,
            creator=actor.user,
            created_via=actor.label[:120],
        )
        append(run, RunCreated(actor=actor.label, planned=run.planned))
        record(
            workspace=workspace,
            actor=actor,
            action="run.created",
            subject=f"run #{number}",
            detail={"name": run.name, "attempts": run.planned, "spend_cap_usd": str(checked.spend_cap)},
        )
        ring("supervisor", f"workspace.{workspace.slug}")
    return run
