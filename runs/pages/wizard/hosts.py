"""Which template versions a run may use, on which workers, and what the workspace may still spend."""

from __future__ import annotations

from dataclasses import dataclass

from console.models import Budget, Workspace
from desktops.models import TemplateVersion, Worker
from runs.models import Task

from .draft import Draft


@dataclass(frozen=True)
class Choice:
    """A template version as a row of the table. `why_not` is empty where it can be chosen."""

    version: TemplateVersion
    runs: int  # of the chosen tasks, how many have their applications in it
    of: int
    on: list[tuple[Worker, bool]]  # each connected worker, and whether it has the image
    why_not: str
    suggested: bool = False

    @property
    def hosts(self) -> list[Worker]:
        return [worker for worker, has_image in self.on if has_image]

    @property
    def slots(self) -> int:
        return sum(worker.slots for worker in self.hosts if not worker.paused)


def workers(workspace: Workspace) -> list[Worker]:
    return list(Worker.objects.for_workspace(workspace).connected())


def root_budget(workspace: Workspace) -> Budget:
    return Budget.objects.get(workspace=workspace, parent=None)


def version_of(workspace: Workspace, draft: Draft) -> TemplateVersion | None:
    """The version that the draft names, if the workspace has published it."""
    name, _, number = str(draft.document.get("template", "")).partition("@")
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    versions = TemplateVersion.objects.filter(
        template__workspace=workspace, template__name=name, version=int(number)
    )
    return versions.filter(status=TemplateVersion.Status.PUBLISHED).select_related("template").first()


def newer_with_a_worker(workspace: Workspace, old: TemplateVersion) -> TemplateVersion | None:
    """The newest published version of the same template that a connected worker has, if none has the old one."""
    connected = workers(workspace)
    if old.status == TemplateVersion.Status.PUBLISHED and _has(connected, old):
        return None
    newer = TemplateVersion.objects.filter(
        template=old.template_id, version__gt=old.version, status=TemplateVersion.Status.PUBLISHED
    )
    found = newer.select_related("template").order_by("-version")
    return next((version for version in found if _has(connected, version)), None)


def _has(connected: list[Worker], version: TemplateVersion) -> bool:
    return any(worker.has_image(version.template.name, version.digest) for worker in connected)


def choices(workspace: Workspace, draft: Draft) -> list[Choice]:
    """Every version, those that cannot be chosen last. Suggested: the cheapest that runs all tasks."""
    hosts = workers(workspace)
    tasks = Task.objects.filter(task_set=draft.task_set(), task_id__in=draft.tasks)
    needs = list(tasks.values_list("templates", flat=True))
    versions = {
        version.pk: version
        for version in TemplateVersion.objects.filter(template__workspace=workspace).select_related(
            "template"
        )
    }
    found = []
    for version in versions.values():
        version.base = versions.get(version.base_id or 0)
        runs = sum(not version.family.isdisjoint(templates) for templates in needs)
        on = [(worker, worker.has_image(version.template.name, version.digest)) for worker in hosts]
        found.append(Choice(version, runs, len(needs), on, _why_not(version, runs, len(needs))))
    able = [one for one in found if not one.why_not]
    best = min(
        able,
        key=lambda one: (not one.hosts, one.version.rate_usd_per_hour, -one.version.version),
        default=None,
    )
    marked = [
        Choice(one.version, one.runs, one.of, one.on, one.why_not, suggested=one is best) for one in found
    ]
    return sorted(marked, key=lambda one: (bool(one.why_not), not one.suggested))


def _why_not(version: TemplateVersion, runs: int, of: int) -> str:
    """A sentence for the row. A host without the image is no reason: the run waits for one."""
    if version.status == TemplateVersion.Status.DRAFT:
        return "A draft may still change. Publish it first."
    if version.status == TemplateVersion.Status.RETIRED:
        return "Retired: it takes no new runs."
    if runs < of:
        missing = of - runs
        tasks = "one chosen task" if missing == 1 else f"{missing:,} chosen tasks"
        return f"It lacks the applications of {tasks}."
    return ""
