"""An evaluation that ended in every way an attempt can, and what a stranger does with its manifest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import LedgerEntry, Workspace
from runs.models import Attempt, Run
from runs.provenance import verify
from tests.factories import (
    AttemptFactory,
    AttemptTryFactory,
    ComputerFactory,
    EventFactory,
    RunFactory,
    StepFactory,
    TaskSetFactory,
    document,
    recount,
    sha256,
)

ENDS: list[dict[str, Any]] = [
    {"valid": True, "reward": 1.0},
    {"valid": True, "reward": 0.25},
    {"faulty": True},
    {"status": "cancelled"},
    {"valid": True, "reward": 0.0},
    {"status": "done", "verifier": "invalid", "invalid_reasons": ["checker_error", "desktop_lost"]},
    {"valid": True, "reward": 1.0},
    {"status": "error", "invalid_reasons": ["worker_lost"]},
    {"valid": True, "reward": 1.0},
    {"valid": True, "reward": 1.0},
    {"valid": True, "reward": 0.0},
    {"status": "cancelled"},
]


def make_run(workspace: Workspace, ends: list[dict[str, Any]], **fields: Any) -> Run:
    """Three tasks, two copies, half of four rounds played."""
    task_set = TaskSetFactory(workspace=workspace, name="three", tasks=3)
    tasks = list(task_set.tasks.order_by("position"))
    spec = document("three", [task.task_id for task in tasks], parallel_copies=2, rounds=4)
    run = RunFactory(
        workspace=workspace,
        task_set=task_set,
        status="running",
        spec=spec,
        planned=24,
        rounds_created=2,
        **{"kind": "evaluation", **fields},
    )
    for place, end in enumerate(ends):
        attempt = AttemptFactory(
            run=run, task=tasks[place // 2 % 3], round=place // 6 + 1, copy=place % 2 + 1, **end
        )
        _played(run, attempt, place)
    EventFactory.create_batch(3, run=run)
    return recount(run)


def _played(run: Run, attempt: Attempt, place: int) -> None:
    if attempt.status == "cancelled":
        return
    judged = attempt.verifier == "valid"
    verdict = {
        "checker": "osworld@v1",
        "checker_digest": f"sha256:{sha256('checker')}",
        "reward": attempt.reward,
        "evidence": [{"artefacts": {"a.txt": sha256(f"file {place}")}}],
    }
    row = AttemptTryFactory(attempt=attempt, ok=judged, verdict=verdict if judged else None)
    if judged:
        StepFactory(attempt_try=row)
    row.computer.image_id = f"sha256:{sha256('image')}"
    row.computer.worker_version = "0.1.0"
    row.computer.save()
    seconds = Decimal(12 + place)
    LedgerEntry.objects.create(
        workspace=run.workspace,
        budget=run.budget,
        subject=row.computer.pk,
        rate_usd_per_hour=Decimal("0.06"),
        opened_at=row.computer.started_at,
        settled_at=timezone.now(),
        seconds=seconds,
        cost=(seconds * Decimal("0.06") / 3600).quantize(Decimal("0.000001")),
    )
    run.budget.spent = sum(entry.cost or 0 for entry in LedgerEntry.objects.filter(budget=run.budget))
    run.budget.save()


def end(run: Run) -> Run:
    run.status, run.stop_reason = Run.Status.CANCELLED, Run.StopReason.CANCELLED_BY_USER
    run.ended_at = timezone.now() + timedelta(seconds=1)
    left = run.planned - run.done - run.error - run.cancelled
    run.cancelled += left
    run.save()
    return Run.objects.select_related("workspace", "budget", "task_set", "template_version__template").get(
        pk=run.pk
    )


@pytest.fixture
def played(workspace: Workspace) -> Run:
    """Goes on: twelve of its 24 attempts are stored."""
    run = make_run(workspace, ENDS)
    workspace.refresh_from_db()
    ComputerFactory(
        assignment__worker__workspace=workspace,
        template_version=run.template_version,
        group=run.pk,
    )
    return Run.objects.select_related("workspace", "budget", "task_set", "template_version__template").get(
        pk=run.pk
    )


@pytest.fixture
def keys(db: None, tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(APIClient().get("/v1/keys").content)
    return path


@pytest.fixture
def verdict(keys: Path, tmp_path: Path) -> Callable[..., tuple[bool, list[str]]]:
    """What the program says of a manifest: whether it holds, and what is wrong."""

    def ask(manifest: bytes | dict[str, Any], events: bytes | None = None) -> tuple[bool, list[str]]:
        path = tmp_path / "manifest"
        path.write_bytes(verify.canonical(manifest) if isinstance(manifest, dict) else manifest)
        log = None
        if events is not None:
            log = tmp_path / "events.jsonl"
            log.write_bytes(events)
        said: list[str] = []
        holds = verify.verify(path, keys, log, said.append)
        return holds, [line for line in said if line.startswith("WRONG")]

    return ask
