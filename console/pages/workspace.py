"""The workspace itself: its settings, for those who manage it, and making a new one."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods

from console.actions.workspaces import NotAllowed, change_workspace, may_open_workspaces, open_workspace
from console.actor import Actor
from console.models import User

from .loaders import WorkspaceRequest, managers_only, workspace_page

SLUG_LENGTH = 50
METHODS = ["GET", "HEAD", "POST"]


@require_http_methods(METHODS)
@workspace_page
@managers_only
def settings_page(request: WorkspaceRequest) -> HttpResponse:
    workspace = request.workspace
    form = {"name": workspace.name, "run_parallelism": str(workspace.run_parallelism)}
    if request.method != "POST":
        return render(request, "workspace/settings.html", {"form": form, "errors": {}})
    form = {field: request.POST.get(field, "").strip() for field in form}
    try:
        change_workspace(
            workspace,
            name=form["name"],
            run_parallelism=_whole_number(form["run_parallelism"]),
            actor=Actor.person(request.user),
        )
    except ValidationError as refused:
        context = {"form": form, "errors": _sentences(refused)}
        return render(request, "workspace/settings.html", context, status=422)
    messages.success(request, "Saved. Runs that are started from now on go by it.")
    return redirect("settings", workspace.slug)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 5):
        raise ValidationError({"run_parallelism": "A whole number from 1 to 64."})
    return int(text)


def _sentences(refused: ValidationError) -> dict[str, str]:
    return {field: " ".join(texts) for field, texts in refused.message_dict.items()}


@require_http_methods(METHODS)
@login_required
def new_workspace(request: HttpRequest) -> HttpResponse:
    """Whoever makes it owns it. An address that is left empty follows from the name."""
    user: User = request.user  # type: ignore[assignment]
    if not may_open_workspaces(user):
        raise PermissionDenied("Only the operator of this console makes workspaces.")
    form = {field: request.POST.get(field, "").replace("\x00", "").strip() for field in ("name", "slug")}
    if request.method != "POST":
        return render(request, "workspace/new.html", {"form": form, "errors": {}})
    slug = form["slug"] or slugify(form["name"])[:SLUG_LENGTH].strip("-")
    try:
        made = open_workspace(slug=slug, name=form["name"], actor=Actor.person(user))
    except NotAllowed as refused:
        raise PermissionDenied(str(refused)) from refused
    except ValidationError as refused:
        context = {"form": form, "errors": _sentences(refused)}
        return render(request, "workspace/new.html", context, status=422)
    messages.success(request, f"{made} is yours. Invite your team on its page Members.")
    return redirect("workspace-home", made.slug)
