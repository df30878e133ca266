"""Workers: what each host can do, what it holds just now, and how to connect another one."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actor import Actor
from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, managers_only, workspace_page
from desktops.actions.pause import pause_worker, resume_worker
from desktops.actions.removal import StillHere, in_the_way, remove_worker
from desktops.models import Computer, State, Template, TemplateVersion, Worker, WorkerRate
from desktops.protocol.messages import HEARTBEAT_SECONDS, LEASE_SECONDS
from desktops.subjects import Subject, subjects


class Image(NamedTuple):
    """A template's image on a host. `others`: builds of the same version that no published version is pinned to."""

    name: str
    version: int
    digest: str
    others: int


class Rate(NamedTuple):
    """Dollars an hour of a published version on this worker; `own`: set for the worker, not the version's."""

    version: TemplateVersion
    amount: Decimal
    own: bool


@dataclass(frozen=True)
class Host:
    worker: Worker
    held: list[Computer]
    rates: list[Rate]
    subjects: dict[uuid.UUID, Subject]
    templates: Container[str]  # names of the workspace's own

    @property
    def images(self) -> list[Image]:
        """A line a version: of several builds the one that is published, else the last that the host names. What
        others have on the same engine is theirs.
        """
        published = {rate.version.digest for rate in self.rates}
        builds: dict[tuple[str, int], list[str]] = defaultdict(list)
        for image in (one for one in self.worker.images if one["name"] in self.templates):
            builds[image["name"], image["version"]].append(image["digest"])
        return [
            Image(name, version, max(digests, key=published.__contains__), len(set(digests)) - 1)
            for (name, version), digests in sorted(builds.items())
        ]

    @property
    def state(self) -> str:
        """A word of the status vocabulary."""
        if self.worker.is_connected:
            return "paused" if self.worker.paused else "connected"
        if self.worker.removed_at:
            return "removed"
        return "left" if self.worker.left_at and not self.held else "lost"

    @property
    def free(self) -> range:
        return range(max(0, self.worker.slots - len(self.held)))


def _hosts(workspace: Workspace, workers: list[Worker]) -> list[Host]:
    held: dict[uuid.UUID, list[Computer]] = defaultdict(list)
    computers = Computer.objects.for_workspace(workspace).held().filter(worker__in=workers)
    for computer in computers.select_related("template_version__template", "assignment").order_by("number"):
        held[computer.worker_id].append(computer)
    rates = _rates(workspace, workers)
    named = subjects(workspace, (one.assignment for computers in held.values() for one in computers))
    templates = set(Template.objects.for_workspace(workspace).values_list("name", flat=True))
    return [Host(worker, held[worker.pk], rates[worker.pk], named, templates) for worker in workers]


def _rates(workspace: Workspace, workers: list[Worker]) -> dict[uuid.UUID, list[Rate]]:
    """What each published version that a worker has costs there. Two queries."""
    versions = list(
        TemplateVersion.objects.filter(
            template__workspace=workspace, status=TemplateVersion.Status.PUBLISHED
        ).select_related("template")
    )
    rows = WorkerRate.objects.filter(worker__in=workers)
    own = {(row.worker_id, row.template_id): row.rate_usd_per_hour for row in rows}
    return {
        worker.pk: [
            Rate(
                version,
                own.get((worker.pk, version.template_id), version.rate_usd_per_hour),
                (worker.pk, version.template_id) in own,
            )
            for version in versions
            if worker.has_image(version.template.name, version.digest)
        ]
        for worker in workers
    }


def worker_or_404(workspace: Workspace, worker_id: uuid.UUID) -> Worker:
    workers = Worker.objects.for_workspace(workspace).select_related("workspace")
    worker: Worker | None = workers.filter(pk=worker_id).first()
    if worker is None:
        raise Http404("No such worker.")
    return worker


@workspace_page
@require_safe
def worker_list(request: WorkspaceRequest) -> HttpResponse:
    hosts = _hosts(request.workspace, list(Worker.objects.for_workspace(request.workspace).listed()))
    here = [host for host in hosts if host.worker.is_connected]
    context = {
        "here": here,
        "away": [host for host in hosts if not host.worker.is_connected],
        "all": len(hosts),
        "held": sum(len(host.held) for host in hosts),
        "slots": sum(host.worker.slots for host in here),
        "free": sum(len(host.free) for host in here if not host.worker.paused),
        "every": HEARTBEAT_SECONDS,
        "lost_after": LEASE_SECONDS,
        "public_url": settings.PUBLIC_URL,
    }
    return render(request, "desktops/workers.html", context)


@workspace_page
@require_safe
def worker(request: WorkspaceRequest, worker_id: uuid.UUID) -> HttpResponse:
    found = worker_or_404(request.workspace, worker_id)
    lately = Computer.objects.for_workspace(request.workspace).filter(worker=found, stopped_at__isnull=False)
    context = {
        "host": _hosts(request.workspace, [found])[0],
        "lately": lately.select_related("template_version__template").order_by("-stopped_at")[:12],
        "in_the_way": in_the_way(found),
        "states": State.objects.for_workspace(request.workspace).filter(worker=found).held().count(),
        "every": HEARTBEAT_SECONDS,
        "lost_after": LEASE_SECONDS,
        "public_url": settings.PUBLIC_URL,
    }
    return render(request, "desktops/worker.html", context)


@workspace_page
@require_POST
@managers_only
def pause(request: WorkspaceRequest, worker_id: uuid.UUID) -> HttpResponseRedirect:
    found = pause_worker(worker_or_404(request.workspace, worker_id), actor=Actor.person(request.user))
    messages.info(request, f"{found.name} is paused: it finishes what it plays and takes nothing new.")
    return redirect("worker", request.workspace.slug, found.pk)


@workspace_page
@require_POST
@managers_only
def resume(request: WorkspaceRequest, worker_id: uuid.UUID) -> HttpResponseRedirect:
    found = resume_worker(worker_or_404(request.workspace, worker_id), actor=Actor.person(request.user))
    messages.info(request, f"{found.name} takes new work again.")
    return redirect("worker", request.workspace.slug, found.pk)


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
def remove(request: WorkspaceRequest, worker_id: uuid.UUID) -> HttpResponse:
    found = worker_or_404(request.workspace, worker_id)
    if request.method != "POST":
        return render(
            request, "desktops/worker_remove.html", {"worker": found, "in_the_way": in_the_way(found)}
        )
    try:
        remove_worker(found, actor=Actor.person(request.user))
    except StillHere as error:
        messages.warning(request, str(error))
        return redirect("worker", request.workspace.slug, found.pk)
    messages.info(request, f"{found.name} is removed.")
    return redirect("worker-list", request.workspace.slug)
