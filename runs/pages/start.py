"""What a workspace has and lacks for its first run."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Count

from console.pages.loaders import WorkspaceRequest
from desktops.models import TemplateVersion, Worker
from runs.models import TaskSet
from runs.pages.frame import optional_address


def readiness(request: WorkspaceRequest) -> dict[str, Any]:
    """Four queries: workers, published templates, task sets, each with what is missing said in a sentence."""
    workspace = request.workspace
    workers = list(Worker.objects.for_workspace(workspace).connected())
    templates = list(
        TemplateVersion.objects.select_related("template").filter(
            template__workspace=workspace, status=TemplateVersion.Status.PUBLISHED
        )[:4]
    )
    task_sets = list(TaskSet.objects.for_workspace(workspace).current().annotate(size=Count("tasks"))[:3])
    slots = sum(worker.slots for worker in workers)
    checks = [
        (
            bool(workers),
            _many(len(workers), "worker") + f" connected, {_many(slots, 'desktop')}"
            if workers
            else "No worker is connected yet",
            optional_address("worker-list", workspace.slug),
        ),
        (
            bool(templates),
            "Templates " + ", ".join(str(version) for version in templates)
            if templates
            else "No template is published yet",
            optional_address("template-list", workspace.slug),
        ),
        (
            bool(task_sets),
            ", ".join(f"Task set {one}, {_many(one.size, 'task')}" for one in task_sets)
            if task_sets
            else "There is no task set yet",
            optional_address("task-set-list", workspace.slug),
        ),
    ]
    return {"checks": checks, "ready": all(done for done, _, _ in checks), "public_url": settings.PUBLIC_URL}


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
