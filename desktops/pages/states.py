"""Saved desktops: those that workers keep, one of them with what it came from and what came of it, deleting it."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet, Sum
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, managers_only, workspace_page
from console.pages.paging import by_moment
from desktops import limits
from desktops.actions.states import NotKept, StateNeeded, keep, let_go, needed
from desktops.api.states import KeepSerializer
from desktops.models import State, Worker
from desktops.subjects import subjects

from .computers import whole_or_text

ROWS: Final = 50
CHILDREN: Final = 12
# Up the parents, the nearest first. What has been deleted stays a row, so the chain is whole.
_FOREBEARS: Final = """
    WITH RECURSIVE up AS (
        SELECT parent_id AS id, 1 AS far FROM desktops_state WHERE workspace_id = %s AND id = %s
        UNION ALL
        SELECT state.parent_id, far + 1 FROM up JOIN desktops_state state ON state.id = up.id WHERE far < 50
    )
    SELECT state.* FROM up JOIN desktops_state state ON state.id = up.id ORDER BY far
"""


def _states(workspace: Workspace) -> QuerySet[State]:
    states = State.objects.for_workspace(workspace)
    return states.select_related("worker", "template_version__template", "computer__assignment")


def state_or_404(workspace: Workspace, state_id: uuid.UUID) -> State:
    state: State | None = _states(workspace).filter(pk=state_id).first()
    if state is None:
        raise Http404("No such saved desktop.")
    return state


def _filtered(workspace: Workspace, asked: QueryDict) -> QuerySet[State]:
    """By `worker` (its name), `origin` and `status`; without a status those that are kept, "any" for all."""
    found = _states(workspace)
    status = asked.get("status", "")
    if status in State.Status.values:
        found = found.filter(status=status)
    elif status != "any":
        found = found.filter(status=State.Status.HELD)
    if (origin := asked.get("origin", "")) in State.Origin.values:
        found = found.filter(origin=origin)
    if worker := asked.get("worker", ""):
        found = found.filter(worker__name=worker)
    return found


@workspace_page
@require_safe
def state_list(request: WorkspaceRequest) -> HttpResponse:
    page = by_moment(_filtered(request.workspace, request.GET), request.GET, rows=ROWS, field="made_at")
    kept = State.objects.for_workspace(request.workspace).held()
    workers = list(Worker.objects.for_workspace(request.workspace).listed().order_by("name"))
    context: dict[str, Any] = {
        "page": page,
        "kept": kept.aggregate(count=Count("pk"), bytes=Sum("size_bytes")),
        "asked": request.GET,
        "is_filtered": any(request.GET.get(name) for name in ("worker", "origin", "status")),
        "workers": workers,
        "can_save": any(worker.can_fork for worker in workers if worker.is_connected),
        "origins": State.Origin.choices,
        "statuses": State.Status.choices,
    }
    return render(request, "desktops/states.html", context)


@workspace_page
@require_safe
def state(request: WorkspaceRequest, state_id: uuid.UUID) -> HttpResponse:
    found = state_or_404(request.workspace, state_id)
    assignment = found.computer.assignment if found.computer else None
    children = list(found.children.order_by("-made_at")[: CHILDREN + 1])
    context = {
        "state": found,
        "forebears": list(State.objects.raw(_FOREBEARS, [request.workspace.pk, found.pk])),
        "children": children[:CHILDREN],
        "more_children": len(children) > CHILDREN,
        "made_by": subjects(request.workspace, [assignment]).get(assignment.subject) if assignment else None,
        "needed_by": needed([found]).get(found.pk),
        "limits": limits,
    }
    return render(request, "desktops/state.html", context)


@require_POST
@workspace_page
def keep_longer(request: WorkspaceRequest, state_id: uuid.UUID) -> HttpResponse:
    found = state_or_404(request.workspace, state_id)
    typed = request.POST.get("keep_days", "").strip()[:20]
    asked = KeepSerializer(data={"keep_days": whole_or_text(typed)})
    if not asked.is_valid():
        messages.warning(request, f"For how many days? {asked.errors['keep_days'][0]}")
        return redirect("state", request.workspace.slug, found.pk)
    try:
        kept = keep(found, days=asked.validated_data["keep_days"], actor=Actor.person(request.user))
    except NotKept as error:
        messages.warning(request, str(error))
    else:
        messages.info(
            request, f"It stays until {kept.expires_at:%B %-d, %H:%M} UTC, and longer if it is used."
        )
    return redirect("state", request.workspace.slug, found.pk)


@workspace_page
@require_http_methods(["GET", "POST"])
@managers_only
def delete(request: WorkspaceRequest, state_id: uuid.UUID) -> HttpResponse:
    found = state_or_404(request.workspace, state_id)
    if request.method == "GET":
        context = {"state": found, "needed_by": needed([found]).get(found.pk)}
        return render(request, "desktops/state_delete.html", context)
    try:
        let_go(found, actor=Actor.person(request.user))
    except StateNeeded as error:
        messages.warning(request, str(error))
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from error
    else:
        told = "It is deleted as soon as its worker is there again." if not found.worker.is_connected else ""
        messages.info(request, f"{found.worker} is deleting it. {told}".strip())
    return redirect("state", request.workspace.slug, found.pk)
